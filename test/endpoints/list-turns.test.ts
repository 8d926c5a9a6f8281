import { once } from 'node:events';
import { constants } from 'node:http2';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { beginList } from '../../src/endpoints/tokens.js';
import { Unavailable } from '../../src/domain/refusal.js';
import { startInProcess } from '../helpers/in-process.js';

t.test('a user has two lists at once, others wait in order, and too many or too long a wait is refused', async (t) => {
  const began: number[] = [];
  const first = await beginList('A', 20);
  const second = await beginList('A', 20);
  const waiting = Array.from({ length: 20 }, async (_, i) => {
    const end = await beginList('A', 20);
    began.push(i);
    return end;
  });
  await t.rejects(beginList('A', 20), Unavailable, 'one more than may wait');
  (await beginList('B'))();
  first();
  first();
  second();
  (await waiting[0])?.();
  await waiting[2];
  t.same(began, [0, 1, 2], 'a turn ends once');
  const late = await Promise.allSettled(waiting);
  t.same(late.map(({ status }) => status === 'fulfilled'), [true, true, true, ...Array<boolean>(17).fill(false)]);
  for (const each of late) if (each.status === 'fulfilled') each.value();
}); // prettier-ignore

t.test('a list counts until its client has read it, or is gone', async (t) => {
  const { create, login, requestByHttp2, http2Session } = await startInProcess(t);
  for (let i = 0; i < 150; i++) await create('superuser', { name: 'x'.repeat(255) });
  const headers = { Cookie: await login('superuser') };
  const other = { Cookie: await login('billing') };
  const list = async (sent = headers) => requestByHttp2('/tokens', { headers: sent });
  t.ok((await list()).text.length > 65_535, 'more than the window of a stream');
  const session = await http2Session();
  session?.setLocalWindowSize(1_000_000);
  for (const end of ['read', 'cancelled']) {
    const unread = [0, 1].map(() => session?.request({ ':path': '/tokens', cookie: headers.Cookie }));
    await Promise.all(unread.map(async (stream) => stream && once(stream, 'response')));
    const third = list();
    t.equal(await Promise.race([third, sleep(30)]), undefined, 'the third waits');
    t.equal((await list(other)).status, 200, 'those of another user do not');
    for (const stream of unread)
      if (end === 'read') stream?.resume();
      else stream?.close(constants.NGHTTP2_CANCEL);
    t.equal((await third).status, 200, `until one is ${end}`);
  }
});

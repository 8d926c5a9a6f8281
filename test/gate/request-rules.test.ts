import t from 'tap';
import { refuseCrossOrigin } from '../../src/gate/request-rules.js';
import type { RequestHead } from '../../src/http/head.js';
import { forEachRow } from '../helpers/table.js';

t.test('an Origin is one’s own if it has the scheme, host and port that the client requested', (t) => {
  forEachRow(
    [
      ['https://api.example', 'api.example', true, true],
      ['https://api.example', 'API.example:443', true, true],
      ['https://api.example:8443', 'api.example:8443', true, true],
      // Whoever is on the network can write a page over http.
      ['http://api.example', 'api.example', true, false],
      ['http://api.example', 'api.example:80', true, false],
      ['http://api.example', 'api.example', false, true],
      ['http://api.example', 'api.example:80', false, true],
      // A proxy that is not trusted may have ended TLS.
      ['https://api.example', 'api.example', false, true],
      ['https://api.example', 'api.example:80', false, false],
      ['https://api.example.evil', 'api.example', false, false],
      ['https://api.example', '', false, false],
      ['null', 'null', false, false],
    ] as const,
    ([origin, host, secure, isOwn]) => {
      const head = { method: 'POST', webSocket: null, origin, client: { host, secure } };
      const refusal = refuseCrossOrigin(head as unknown as RequestHead, new Set());
      t.equal(refusal === undefined, isOwn, `${origin} at ${host}, ${secure ? 'TLS' : 'plain'}`);
    },
  );
  t.end();
});

t.test('configured origins are one’s own, whatever Host a proxy made of it', (t) => {
  const own = new Set(['https://api.example:8443', 'http://intranet.test:8080']);
  const refusalOf = (more: object, secure = false) => {
    const head = { method: 'GET', webSocket: true, client: { host: 'Intranet.test', secure }, ...more };
    return refuseCrossOrigin(head as unknown as RequestHead, own);
  };
  for (const origin of [...own, 'http://intranet.test']) t.equal(refusalOf({ origin }), undefined, origin);
  t.equal(refusalOf({ origin: 'https://api.example:8443', fetchSite: 'cross-site' }), undefined);
  const configured = 'https://api.example:8443 or http://intranet.test:8080';
  for (const [head, secure, sent, expected] of [
    [{ origin: 'http://intranet.test:81' }, false, 'Origin http://intranet.test:81', 'https://intranet.test or http://intranet.test'],
    [{ origin: 'http://intranet.test' }, true, 'Origin http://intranet.test', 'https://intranet.test'],
    [{ origin: 'null', fetchSite: 'cross-site' }, true, 'Sec-Fetch-Site cross-site and Origin null', 'https://intranet.test'],
  ] as const)
    t.match(refusalOf(head, secure), { detail: `The request comes from another origin: it has ${sent}, expected ${expected} or ${configured}` });
  t.match(refusalOf({ fetchSite: 'same-site' }), { detail: /: it has Sec-Fetch-Site same-site, expected same-origin$/ });
  t.end();
}); // prettier-ignore

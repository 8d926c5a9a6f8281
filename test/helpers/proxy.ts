import { connect, createServer, type Socket } from 'node:net';

/**
 * A TCP proxy on loopback whose connections can be cut or go silent, as behind a lost network. Its
 * sockets are handled directly because they come in pairs, and each ends the other.
 */
export async function startProxy(t: { teardown: (fn: () => void) => void }, first: number) {
  let port = first;
  let mode: 'open' | 'quiet' | 'mute' | 'refusing' = 'open';
  let trigger: string | undefined;
  let delay = 0;
  const pairs = new Set<[Socket, Socket]>();
  const server = createServer((near) => {
    if (mode === 'refusing') {
      near.destroy();
      return;
    }
    const far = connect(port, '127.0.0.1');
    const pair: [Socket, Socket] = [near, far];
    pairs.add(pair);
    near.on('data', (chunk: Buffer) => {
      if (trigger !== undefined && chunk.includes(trigger)) mode = 'mute';
      if (mode !== 'quiet') far.write(chunk);
    });
    const answer = (chunk: Buffer) => void (mode === 'quiet' || mode === 'mute' || near.write(chunk));
    far.on('data', (chunk: Buffer) => (delay === 0 ? answer(chunk) : setTimeout(() => answer(chunk), delay)));
    const end = () => {
      pairs.delete(pair);
      near.destroy();
      far.destroy();
    };
    for (const socket of pair) socket.on('close', end).on('error', end);
  });
  await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done));
  const cut = () => {
    for (const pair of pairs) for (const socket of pair) socket.destroy();
  };
  t.teardown(() => {
    server.close();
    cut();
  });
  const { port: near } = server.address() as { port: number };
  return {
    port: near,
    url: `redis://127.0.0.1:${near}`,
    cut,
    /** Leads later connections to another port. */
    redirect: (to: number) => void (port = to),
    /** Drops all data in both directions; connections stay open. */
    quiet: () => (mode = 'quiet'),
    /**
     * Passes requests on but drops the responses.
     * @param from starts with the request that contains this text
     */
    mute: (from?: string) => {
      trigger = from;
      if (from === undefined) mode = 'mute';
    },
    /** Delays the responses. @param ms milliseconds */
    slow: (ms: number) => (delay = ms),
    refuse: () => {
      mode = 'refusing';
      cut();
    },
    open: () => {
      // Dropped data cannot be recovered, so those connections are closed.
      if (mode === 'quiet' || mode === 'mute') cut();
      mode = 'open';
      trigger = undefined;
    },
  };
}

import { connect, createServer, type Socket } from 'node:net';

/** A TCP proxy on loopback whose connections can be cut, or go quiet without a sign, as behind a lost network. */
export async function startProxy(t: { teardown: (fn: () => void) => void }, port: number) {
  let mode: 'open' | 'quiet' | 'refusing' = 'open';
  const pairs = new Set<[Socket, Socket]>();
  const server = createServer((near) => {
    if (mode === 'refusing') {
      near.destroy();
      return;
    }
    const far = connect(port, '127.0.0.1');
    const pair: [Socket, Socket] = [near, far];
    pairs.add(pair);
    const pass = (to: Socket) => (chunk: Buffer) => void (mode === 'quiet' || to.write(chunk));
    near.on('data', pass(far));
    far.on('data', pass(near));
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
  return {
    url: `redis://127.0.0.1:${(server.address() as { port: number }).port}`,
    cut,
    /** Nothing passes any more, and nobody is told. */
    quiet: () => (mode = 'quiet'),
    refuse: () => {
      mode = 'refusing';
      cut();
    },
    open: () => {
      // What was swallowed can't come back, so those connections are over.
      if (mode === 'quiet') cut();
      mode = 'open';
    },
  };
}

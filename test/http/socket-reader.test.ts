import t from 'tap';
import type { Socket } from 'node:net';
import { SocketReader, bulkBuffers } from '../../src/net/socket.js';

/** Reads as Node does: into the reader's buffer, then calls back with the number of bytes. */
function readInto(
  reader: SocketReader,
  bytes: Buffer,
): { readonly buffer: Uint8Array; readonly goesOn: boolean } {
  const { buffer } = reader.onread;
  const current = buffers.get(reader) ?? buffer();
  bytes.copy(current);
  const goesOn = reader.onread.callback(bytes.length, current);
  buffers.set(reader, buffer());
  return { buffer: current, goesOn };
}
const buffers = new WeakMap<SocketReader, Uint8Array>();

const SMALL = 100;
const LARGE = 40_000;
const filled = (size: number, value: number) => Buffer.alloc(size, value);

t.test('kept bytes stay as they are, whatever any reader reads next', async (t) => {
  const readers = Array.from({ length: 4 }, () => new SocketReader());
  const kept: [Buffer, number][] = [];
  for (const reader of readers)
    reader.onBytes = (bytes) => kept.push([reader.keep(bytes), bytes[0] as number]);
  for (let i = 0; i < 200; i++) {
    const size = [SMALL, LARGE, LARGE, SMALL, 65_536][i % 5] as number;
    readInto(readers[(i * 7) % 4] as SocketReader, filled(size, i));
  }
  t.equal(kept.length, 200);
  t.notOk(kept.find(([bytes, value]) => bytes.some((byte) => byte !== value)));
});

t.test('small reads of all sockets use one buffer', async (t) => {
  const [one, two] = [new SocketReader(), new SocketReader()];
  t.equal(readInto(one, filled(SMALL, 1)).buffer, readInto(two, filled(SMALL, 2)).buffer);
});

t.test(
  'a bulk transfer reads into a buffer of its own, which is reused once its bytes are released',
  async (t) => {
    const [reader, other] = [new SocketReader(), new SocketReader()];
    let releases = true;
    reader.onBytes = (bytes) => {
      reader.keep(bytes);
      if (releases) reader.release();
    };
    const first = readInto(reader, filled(LARGE, 1)).buffer;
    const own = readInto(reader, filled(LARGE, 2)).buffer;
    t.not(own, first);
    readInto(other, filled(LARGE, 3));
    t.not(readInto(other, filled(LARGE, 3)).buffer, own);
    t.equal(readInto(reader, filled(LARGE, 4)).buffer, own);
    releases = false;
    t.equal(readInto(reader, filled(LARGE, 5)).buffer, own);
    t.not(readInto(reader, filled(LARGE, 6)).buffer, own, 'bytes that were not released are not overwritten');
    releases = true;
    readInto(reader, filled(SMALL, 7));
    t.equal(readInto(reader, filled(SMALL, 8)).buffer, first, 'small reads return to the shared buffer');
  },
);

t.test('one release does not release what was kept before', async (t) => {
  const reader = new SocketReader();
  readInto(reader, filled(LARGE, 1));
  reader.onBytes = (bytes) => {
    reader.keep(bytes.subarray(0, 10));
    reader.keep(bytes.subarray(10));
    reader.release();
  };
  const { buffer } = readInto(reader, filled(LARGE, 2));
  t.not(readInto(reader, filled(LARGE, 3)).buffer, buffer);
});

t.test('after a hand-over, the stream of the socket gets copies, and stops reading when it is full', async (t) => {
  const reader = new SocketReader();
  const pushed: Buffer[] = [];
  const stream = { push: (bytes: Buffer) => pushed.push(bytes) < 2 } as unknown as Socket;
  reader.onBytes = () => t.fail('bytes after a hand-over');
  reader.pushTo(stream);
  t.ok(readInto(reader, filled(SMALL, 1)).goesOn);
  t.notOk(readInto(reader, filled(SMALL, 2)).goesOn);
  t.same(pushed.map((bytes) => bytes[0]), [1, 2]);
}); // prettier-ignore

t.test('bulk buffers are bounded, and given up when their sockets close', async (t) => {
  const before = bulkBuffers();
  const readers = Array.from({ length: 400 }, () => new SocketReader());
  const kept: [Buffer, number][] = [];
  for (const [i, reader] of readers.entries()) {
    reader.onBytes = (bytes) => kept.push([reader.keep(bytes), i % 256]);
    for (let read = 0; read < 2; read++) readInto(reader, filled(LARGE, i % 256));
  }
  t.equal(bulkBuffers(), 256);
  t.notOk(kept.find(([bytes, value]) => bytes.some((byte) => byte !== value)));
  for (const reader of readers) {
    reader.close();
    reader.close();
  }
  t.equal(bulkBuffers(), before);
});

t.test('a socket that closes during a read gives its buffer up once', async (t) => {
  const reader = new SocketReader();
  readInto(reader, filled(LARGE, 1));
  const before = bulkBuffers();
  reader.onBytes = () => reader.close();
  readInto(reader, filled(LARGE, 2));
  t.equal(bulkBuffers(), before - 1);
  readInto(reader, filled(LARGE, 3));
  t.equal(bulkBuffers(), before - 1);
});

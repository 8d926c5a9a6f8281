// The network between the parties of a run: each listens behind a front, and any two of them can be
// partitioned.
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { onEnd } from '../lib/processes.mjs';

/** @import { Socket } from 'node:net' */
/**
 * @typedef {(a: string, b: string) => boolean} IsParted whether nothing passes between two parties
 */

/**
 * A network of processes on loopback. The client of a front is identified by the process that holds
 * its socket, so the processes need no settings for it.
 */
export class Network {
  /** @type {{ name: string, pid: () => number | undefined }[]} */
  #parties = [];
  /** @type {Set<Connection>} */
  #connections = new Set();
  /** @type {IsParted | undefined} */
  #isParted;
  #late = false;

  /**
   * @param {string} name
   * @param {() => number | undefined} pid of the client process, at present
   */
  addParty(name, pid) {
    this.#parties.push({ name, pid });
  }

  /**
   * Listens at `front` for a party whose server is at `port`.
   *
   * @param {string} name
   * @param {number} front
   * @param {number} port
   */
  async listen(name, front, port) {
    const server = createServer({ pauseOnConnect: true }, (near) => this.#accept(near, name, port));
    await /** @type {Promise<void>} */ (
      new Promise((done, failed) => server.once('error', failed).listen(front, '127.0.0.1', done))
    );
    onEnd(() => {
      server.close();
      this.heal();
      for (const connection of this.#connections) connection.reset();
    });
  }

  /**
   * Partitions parties: nothing passes between them, and no connection is closed.
   *
   * @param {IsParted} isParted
   * @param {boolean} late data sent meanwhile arrives after `heal`; otherwise it is lost with its
   *   connection
   */
  part(isParted, late) {
    this.#isParted = isParted;
    this.#late = late;
    this.#findOwners();
    for (const connection of this.#connections) connection.block(this.#isApart(connection), late);
  }

  /** Ends the partition. */
  heal() {
    this.#isParted = undefined;
    for (const connection of this.#connections) connection.unblock();
  }

  /**
   * @param {Socket} near
   * @param {string} to
   * @param {number} port
   */
  #accept(near, to, port) {
    near.on('error', () => undefined);
    /** @type {Connection} */
    const connection = new Connection(near, port, to, () => this.#connections.delete(connection));
    this.#connections.add(connection);
    if (this.#isApart(connection)) connection.block(true, this.#late);
    else connection.open();
  }

  /**
   * Returns whether the partition applies. Identifies the client only now, because that takes
   * milliseconds.
   *
   * @param {Connection} connection
   */
  #isApart(connection) {
    if (this.#isParted === undefined) return false;
    if (connection.from === undefined) this.#findOwners();
    return this.#isParted(connection.from ?? '', connection.to);
  }

  /** Finds the parties that hold the sockets of all connections; empty for any other process. */
  #findOwners() {
    const unknown = [...this.#connections].filter(({ from }) => from === undefined);
    if (unknown.length === 0) return;
    const inodes = inodesByPort();
    const owners = new Map(
      this.#parties.flatMap(({ name, pid }) => socketsOf(pid()).map((link) => [link, name])),
    );
    for (const connection of unknown)
      connection.from = owners.get(`socket:[${inodes.get(connection.port)}]`) ?? '';
  }
}

/** One connection through a front. */
class Connection {
  #near;
  /** @type {Socket | undefined} */
  #far;
  #port;
  #onClose;
  #blocked = false;
  #late = false;
  #ended = false;

  /**
   * The client, once it was identified.
   *
   * @type {string | undefined}
   */
  from;

  /**
   * @param {Socket} near
   * @param {number} port
   * @param {string} to
   * @param {() => void} onClose
   */
  constructor(near, port, to, onClose) {
    this.to = to;
    this.port = near.remotePort;
    this.#near = near;
    this.#port = port;
    this.#onClose = onClose;
    near.once('close', () => this.#end());
  }

  open() {
    const [near, far] = [this.#near, connect(this.#port, '127.0.0.1')];
    this.#far = far;
    near.setNoDelay(true);
    far.setNoDelay(true);
    far.on('error', () => undefined);
    far.once('close', () => this.#end());
    near.on('data', (chunk) => far.write(chunk));
    far.on('data', (chunk) => near.write(chunk));
    near.resume();
  }

  /**
   * @param {boolean} blocked
   * @param {boolean} late
   */
  block(blocked, late) {
    if (!blocked) return;
    this.#blocked = true;
    this.#late = late;
    this.#near.pause();
    this.#far?.pause();
  }

  unblock() {
    if (!this.#blocked) return;
    this.#blocked = false;
    if (!this.#late || this.#ended) this.reset();
    else if (this.#far === undefined) this.open();
    else {
      this.#near.resume();
      this.#far.resume();
    }
  }

  /** Closes it; data already sent still arrives, as when a process dies. */
  close() {
    this.#near.destroySoon();
    this.#far?.destroySoon();
    this.#onClose();
  }

  /** Resets it; data in flight is lost. */
  reset() {
    this.#near.destroy();
    this.#far?.destroy();
    this.#onClose();
  }

  /** Handles the end of one side, which the other cannot notice during a partition. */
  #end() {
    this.#ended = true;
    if (!this.#blocked) this.close();
  }
}

/** Returns the inodes of loopback connections by local port. */
function inodesByPort() {
  const inodes = new Map();
  for (const line of readFileSync('/proc/net/tcp', 'utf8').split('\n')) {
    const fields = line.trim().split(/\s+/);
    const [address, port = ''] = (fields[1] ?? '').split(':');
    if (address === '0100007F' && fields[9] !== '0') inodes.set(Number.parseInt(port, 16), fields[9]);
  }
  return inodes;
}

/**
 * Returns the sockets that a process holds.
 *
 * @param {number | undefined} pid
 */
function socketsOf(pid) {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((name) => linkOf(`/proc/${pid}/fd/${name}`));
  } catch {
    return [];
  }
}

/** @param {string} path */
function linkOf(path) {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}

// Schedules faults from a seed, one after another in each lane: those of the store's servers, and
// those of sidecars beside them.
import { setTimeout as sleep } from 'node:timers/promises';

/** @import { Random } from '../fuzz/random.mjs' */
/** @import { IsParted, Network } from './network.mjs' */
/** @import { Fault, Recorder } from './record.mjs' */
/** @import { RedisServer, RedisStore } from './redis.mjs' */
/** @import { Sidecar } from './sidecars.mjs' */
/**
 * @typedef {Omit<Fault, 'type' | 'fault' | 'start' | 'end'>} Note how the history describes a fault
 */
/** @typedef {Record<string, () => Promise<{ note: Note, heal: () => Promise<void> }>>} Faults */
/**
 * @typedef {{ kinds: string[], seconds: [least: number, most: number], random: Random, faults:
 *   Faults }} Lane
 */

/**
 * Injects faults until the run is over, and heals each.
 *
 * @param {{ lanes: Lane[], recorder: Recorder, pace: number, isOver: () => boolean, onFault: (text:
 *   string) => void }} what
 *   `pace` stretches pauses and faults
 */
export async function runFaults({ lanes, recorder, pace, isOver, onFault }) {
  await Promise.all(lanes.filter(({ kinds }) => kinds.length > 0).map(runLane));

  /** @param {Lane} lane */
  async function runLane({ kinds, faults, seconds, random }) {
    /**
     * @param {number} least
     * @param {number} most
     */
    const span = (least, most) => (least + (random.below(1_001) / 1_000) * (most - least)) * 1_000 * pace;
    for (;;) {
      await wait(span(2, 6));
      if (isOver()) return;
      const fault = random.pick(kinds);
      const start = recorder.now();
      const { note, heal } = await faults[fault]();
      onFault(`${fault} ${note.target}`);
      await wait(span(...seconds));
      await heal();
      recorder.add({ type: 'fault', fault, ...note, start, end: recorder.now() });
      onFault('');
    }
  }

  /** @param {number} ms */
  async function wait(ms) {
    for (const until = performance.now() + ms; performance.now() < until && !isOver();) await sleep(20);
  }
}

/**
 * How long a sentinel that was stopped abstains from elections after it resumes (its TILT mode), in
 * milliseconds.
 */
const TILT_MS = 30_000;

/**
 * Faults of the store's servers; each affects the master more often than others.
 *
 * @param {{ store: RedisStore, network: Network, sidecars: Sidecar[], random: Random }} what
 * @returns {Faults}
 */
export function serverFaults({ store, network, sidecars, random }) {
  const watched = [...store.servers, ...store.others];
  const pickServer = async () => {
    const master = await masterOf(store);
    return master !== undefined && random.below(3) < 2 ? master : random.pick(store.servers);
  };
  // Without a majority of the sentinels no master can be elected, which is worse than the loss of
  // one server.
  let completeAt = -Infinity;
  const pick = async () =>
    store.others.length > 0 && random.oneIn(8) && performance.now() > completeAt
      ? random.pick(store.others)
      : pickServer();
  /** @param {RedisServer} target */
  const noteOf = async (target) => ({
    target: target.name,
    ...(store.servers.includes(target) ? { gone: true, master: (await masterOf(store)) === target } : {}),
  });
  return {
    kill: async () => {
      const target = await pick();
      const note = await noteOf(target);
      await target.kill();
      return { note, heal: () => target.start() };
    },
    stop: async () => {
      const target = await pick();
      const note = await noteOf(target);
      target.signal('SIGSTOP');
      const heal = async () => {
        target.signal('SIGCONT');
        if (store.others.includes(target)) completeAt = performance.now() + TILT_MS;
      };
      return { note, heal };
    },
    partition: async () => {
      const target = await pickServer();
      const sidecar = random.pick(sidecars);
      const names = new Set(watched.map(({ name }) => name));
      /** @param {string} name */
      const isStore = (name) => names.has(name);
      const late = random.oneIn(2);
      /** @type {[Note, IsParted][]} */
      const ways = [
        [{ target: `${target.name} from all`, gone: true }, between(target.name, () => true)],
        // Clients still reach it, so it accepts writes that no other server will know.
        [{ target: `${target.name} from the store` }, between(target.name, isStore)],
        [
          { target: `${sidecar.name} from ${target.name}`, sidecar: sidecar.index },
          between(sidecar.name, (name) => name === target.name),
        ],
        [
          { target: `${sidecar.name} from the store`, sidecar: sidecar.index },
          between(sidecar.name, isStore),
        ],
      ];
      const [note, isParted] = random.pick(ways);
      network.part(isParted, late);
      return { note: { ...note, late }, heal: async () => network.heal() };
    },
  };
}

/** @param {RedisStore} store */
async function masterOf({ servers, master }) {
  const name = await master();
  return servers.find((server) => server.name === name);
}

/**
 * Returns whether one of two parties is `one` and the other is among `others`.
 *
 * @param {string} one
 * @param {(name: string) => boolean} others
 * @returns {IsParted}
 */
function between(one, others) {
  return (a, b) => (a === one && others(b)) || (b === one && others(a));
}

/**
 * @param {{ sidecars: Sidecar[], random: Random }} what
 * @returns {Faults}
 */
export function sidecarFaults({ sidecars, random }) {
  return {
    'pause-sidecar': async () => {
      const sidecar = random.pick(sidecars);
      sidecar.signal('SIGSTOP');
      const note = { target: sidecar.name, sidecar: sidecar.index };
      return { note, heal: async () => sidecar.signal('SIGCONT') };
    },
    clock: async () => {
      const sidecar = random.pick(sidecars);
      const offset = random.pick(['-120s', '-10s', '-3s', '+3s', '+10s', '+120s']);
      sidecar.setClock(offset);
      const note = { target: sidecar.name, offset };
      return { note, heal: async () => sidecar.setClock('+0s') };
    },
  };
}

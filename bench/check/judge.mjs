// Reports the figures that got worse.
import { figure } from '../lib/output.mjs';

/** @typedef {keyof typeof NAMES} Name */
/** @typedef {Record<Name, number>} Figures */

const NAMES = {
  forwarded_cpu_ratio: ['a forwarded request', 'times the CPU of a bare TCP pipe'],
  refused_cpu_ratio: ['a refused request', 'times the CPU of a forwarded one of a bare TCP pipe'],
  forwarded_kib: ['a forwarded request', 'KiB allocated'],
  refused_kib: ['a refused request', 'KiB allocated'],
  kept_kib: ['what a steady request leaves behind', 'KiB'],
};

/**
 * Compares measurements with their limits.
 *
 * @param {Figures} measured
 * @param {Figures | undefined} limits of this version of Node
 * @param {Figures} tolerance allowed excess over each limit, as a share
 * @param {boolean} isQuiet whether the CPU figures are meaningful
 * @returns {string[]} one sentence for each figure above its limit
 */
export function judge(measured, limits, tolerance, isQuiet = true) {
  if (limits === undefined) return [`there are no limits for Node ${process.version}: set them with --set`];
  return /** @type {Name[]} */ (Object.keys(NAMES)).flatMap((key) => {
    const [what, unit] = NAMES[key];
    if (!isQuiet && key.endsWith('_cpu_ratio')) return [];
    const [is, limit, allowed] = [measured[key], limits[key], tolerance[key]];
    if (is <= limit * (1 + allowed)) return [];
    const more = Math.round((is / limit - 1) * 100);
    return [
      `${what} became dearer: ${figure(is)} ${unit}, ${more} % more than ${figure(limit)} in bench/check/limits.json, which allows ${Math.round(allowed * 100)} %`,
    ];
  });
}

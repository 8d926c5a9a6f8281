// What is said of many numbers by few.

/**
 * The value below which a share of the values lies (nearest rank).
 *
 * @param {number[]} values in any order
 * @param {number} share
 */
export function quantile(values, share) {
  if (values.length === 0) return NaN;
  const sorted = Float64Array.from(values).toSorted();
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(sorted.length * share) - 1))];
}

/**
 * The middle value; between two of them their mean. What is no number is left out: a round without an answer.
 *
 * @param {number[]} values
 */
export function median(values) {
  const sorted = Float64Array.from(values).filter(Number.isFinite).toSorted();
  if (sorted.length === 0) return NaN;
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/**
 * How far the values lie apart: (largest - smallest) / median.
 *
 * @param {number[]} values
 */
export function spread(values) {
  return (Math.max(...values) - Math.min(...values)) / median(values);
}

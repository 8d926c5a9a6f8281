// Summary statistics.

/**
 * Returns the quantile of some values (nearest rank).
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
 * Returns the median, which is the mean of the two middle values if their number is even. Values
 * that are not finite are ignored: rounds without a response.
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
 * Returns the relative spread: (largest - smallest) / median.
 *
 * @param {number[]} values
 */
export function spread(values) {
  return (Math.max(...values) - Math.min(...values)) / median(values);
}

/**
 * Runs a check for every row of a table.
 * @throws Error if the table is empty
 */
export function forEachRow<Row>(rows: readonly Row[], check: (row: Row) => void): void {
  if (rows.length === 0) throw new Error('an empty table checks nothing');
  for (const row of rows) check(row);
}

/** Whether every case runs, as in `npm run nightly`, or only the representatives of each rule. */
export const EVERY_CASE = process.env['TESTS'] === 'all';

/** Options of a test that runs at night only: a cheaper one proves the same rule on every change. */
export const nightly: { readonly skip?: string } = EVERY_CASE ? {} : { skip: 'nightly' };

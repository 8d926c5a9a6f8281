import t from 'tap';
import { readRoute } from '../../src/ui/address.js';
import { expiryOf, expiryPresets, firstPreset, overlapChoices, toExpiresAt } from '../../src/ui/tokens.js';
import {
  DAY,
  describeClient,
  endOfDay,
  expiryState,
  explainFailure,
  formatDistance,
  formatMoment,
  formatUtc,
  nameOf,
} from '../../src/ui/words.js';
import { forEachRow } from '../helpers/table.js';

const NOW = new Date(2026, 5, 15, 12, 0, 0).getTime();

t.test('formats moments and distances', async (t) => {
  t.equal(formatMoment(NOW, NOW), 'Today, 12:00');
  t.equal(formatMoment(NOW - DAY, NOW), 'Yesterday, 12:00');
  t.equal(formatMoment(NOW + DAY, NOW), 'Tomorrow, 12:00');
  t.equal(formatMoment(NOW - 3 * DAY, NOW), '12 Jun 2026, 12:00');
  t.equal(formatUtc(Date.UTC(2026, 0, 2, 3, 4, 5)), '2026-01-02 03:04:05 UTC');
  forEachRow<[number, string]>(
    [[-1, 'just now'], [1, 'in less than a minute'], [-60_000, '1 minute ago'], [-7_200_000, '2 hours ago'], [-DAY, '1 day ago'], [1.6 * DAY, 'in 1 day'], [10 * DAY, 'in 10 days'], [60 * DAY, 'in 60 days'], [61 * DAY, 'in 2 months'], [-730 * DAY, '23 months ago'], [-731 * DAY, '2 years ago']],
    ([distance, words]) => t.equal(formatDistance(NOW + distance, NOW), words),
  );
}); // prettier-ignore

t.test('the state of an expiry, and the presets for a new one', async (t) => {
  const at = (ms: number) => new Date(NOW + ms).toISOString();
  t.equal(expiryState(null, 7 * DAY, NOW), 'never');
  t.equal(expiryState(at(0), 7 * DAY, NOW), 'past');
  t.equal(expiryState(at(7 * DAY), 7 * DAY, NOW), 'soon');
  t.equal(expiryState(at(7 * DAY + 1), 7 * DAY, NOW), 'later');
  const values = (limit: number | null) => expiryPresets(limit).map(([value]) => value);
  t.same(values(null), ['7', '30', '90', '365', 'date', 'longest']);
  t.same(values(30 * 86_400), ['7', '30', 'date', 'longest']);
  t.equal(firstPreset(null), '90');
  t.equal(firstPreset(3_600), 'longest');
  t.equal(expiryOf('30', '', NOW), NOW + 30 * DAY);
  t.equal(expiryOf('longest', '', NOW), null);
  t.equal(expiryOf('date', '2026-06-15', NOW), endOfDay('2026-06-15'), 'today ends, too');
  t.ok(Number.isNaN(expiryOf('date', '2026-06-14', NOW)));
  t.ok(Number.isNaN(expiryOf('date', '', NOW)));
  t.equal(toExpiresAt(Date.UTC(2027, 0, 1)), '2027-01-01T00:00:00Z');
  t.equal(toExpiresAt(null), null);
});

t.test('a name of nothing but spaces is shown as none', async (t) => {
  t.same(
    ['', ' ', '\u00a0', ' ci'].map((name) => nameOf({ name })),
    ['Unnamed token', 'Unnamed token', 'Unnamed token', ' ci'],
  );
});

t.test('describes clients by their User-Agent', async (t) => {
  forEachRow<[string | null, string]>(
    [
      [null, 'unnamed client'],
      ['curl/8.5.0', 'curl 8.5.0'],
      ['terraform-provider/7.2 (+https://example.com)', 'terraform-provider 7.2'],
      ['something', 'something'],
      ['Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/128.0.0.0 Safari/537.36', 'Chrome 128 on Linux'],
      ['Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/128.0.0.0 Safari/537.36 Edg/128.0.0.0', 'Edge 128 on Windows'],
      ['Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1', 'Safari 17 on iPhone'],
      ['Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:129.0) Gecko/20100101 Firefox/129.0', 'Firefox 129 on macOS'],
    ],
    ([agent, words]) => t.equal(describeClient(agent), words),
  );
}); // prettier-ignore

t.test('failures say what happened and what to do', async (t) => {
  const refused = (status: number, code: string, detail = '', retryAfter: number | null = null) =>
    explainFailure({ kind: 'refused', status, code, detail, retryAfter });
  t.match(explainFailure({ kind: 'no_answer' }), /did not respond\. Check/);
  t.match(refused(429, '', '', 300), 'Wait 5 minutes');
  t.match(refused(503, '', '', 1), 'Wait a second');
  t.match(refused(422, 'Unprocessable Entity', 'The user already has 3 active tokens'), 'This was refused. The user already has 3 active tokens.');
  t.match(refused(403, '', 'The role user is not allowed'), 'You are not allowed to do this. The role user is not allowed.');
}); // prettier-ignore

t.test('the configured overlaps', async (t) => {
  const labels = (overlap: number, max_overlap: number) => overlapChoices({ overlap, max_overlap }).map(([, label]) => label);
  t.same(labels(86_400, 604_800), ['At once', 'In 1 hour', 'In 1 day', 'In 7 days']);
  t.same(labels(7_200, 7_200), ['At once', 'In 1 hour', 'In 2 hours']);
  t.same(labels(90, 90), ['At once', 'In 90 seconds']);
}); // prettier-ignore

t.test('parses the addresses of views', async (t) => {
  t.equal(readRoute(''), 'tokens');
  t.equal(readRoute('#/sessions'), 'sessions');
  t.equal(readRoute('#/tokens/new'), 'new');
  t.equal(readRoute('#/tokens/../x'), 'tokens');
});

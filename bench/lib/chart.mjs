// Draws bar charts as SVG without dependencies; text stays text.

const WIDTH = 760;
const NAMES = 200;
const VALUES = 110;
const ROW = 26;
const BAR = 14;
const MARGIN = 20;

/**
 * Colours of the parts for light and dark mode. The card has its own background, so it is readable
 * on any page.
 */
const STYLE = `
  .card { fill: #ffffff; stroke: #d0d7de }
  .title { font-weight: 600; font-size: 15px }
  .note { fill: #59636e; font-size: 12px }
  .own { font-weight: 600 }
  text { font: 13px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328 }
  .first { fill: #8c959f } .first.own { fill: #0969da }
  .second { fill: #c8d1da } .second.own { fill: #80b6f2 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #3d444d }
    text { fill: #f0f6fc } .note { fill: #9198a1 }
    .first { fill: #7d8590 } .first.own { fill: #4493f8 }
    .second { fill: #484f58 } .second.own { fill: #1f4f8f }
  }`;

/**
 * `own` rows are highlighted.
 *
 * @typedef {{ title: string, note: string, stacked: boolean, rows: { name: string, parts: number[],
 *   label: string, own?: boolean }[] }} Chart
 */
/**
 * Draws one or more charts, one below the other. Each bar has one or two parts; the second is
 * behind the first or after it.
 *
 * @param {Chart[]} charts
 */
export function chartsAsSvg(charts) {
  let y = MARGIN;
  const drawn = charts.map((chart) => {
    const { svg, height } = drawChart(chart, y);
    y += height + MARGIN;
    return svg;
  });
  const text = charts.map(({ title, rows }) => `${title}: ${rows.map(({ name, label }) => `${name} ${label}`).join(', ')}`);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y}" width="${WIDTH}" height="${y}" role="img">
<title>${escape(text.join('. '))}</title>
<style>${STYLE}
</style>
<rect class="card" x="0.5" y="0.5" width="${WIDTH - 1}" height="${y - 1}" rx="8"/>
${drawn.join('\n')}
</svg>
`;
} // prettier-ignore

/**
 * @param {Chart} what
 * @param {number} top
 */
function drawChart({ title, note, stacked, rows }, top) {
  const longest = Math.max(...rows.map(({ parts }) => (stacked ? sum(parts) : Math.max(...parts))));
  const scale = (WIDTH - NAMES - VALUES - 2 * MARGIN) / longest;
  const head = [
    `<text class="title" x="${MARGIN}" y="${top + 14}">${escape(title)}</text>`,
    `<text class="note" x="${MARGIN}" y="${top + 34}">${escape(note)}</text>`,
  ];
  const begin = top + 48;
  const lines = rows.flatMap(({ name, parts, label, own }, index) => {
    const y = begin + index * ROW;
    const mark = own ? ' own' : '';
    const left = MARGIN + NAMES;
    const bars = barsOf(parts, stacked).map(
      ({ from, to, part }) =>
        `<rect class="${part}${mark}" x="${at(left + from * scale)}" y="${y}" width="${at(Math.max(1, (to - from) * scale))}" height="${BAR}" rx="2"/>`,
    );
    const end = left + (stacked ? sum(parts) : Math.max(...parts)) * scale;
    return [
      `<text class="${mark.trim()}" x="${left - 10}" y="${y + 12}" text-anchor="end">${escape(name)}</text>`,
      ...bars,
      `<text class="${mark.trim()}" x="${at(end + 8)}" y="${y + 12}">${escape(label)}</text>`,
    ];
  });
  return { svg: [...head, ...lines].join('\n'), height: 48 + rows.length * ROW };
}

/**
 * Stacked parts follow each other; others share their start, the longer one behind.
 *
 * @param {number[]} what
 * @param {boolean} stacked
 */
function barsOf([first, second], stacked) {
  if (second === undefined) return [{ from: 0, to: first, part: 'first' }];
  if (stacked) return [{ from: 0, to: first, part: 'first' }, { from: first, to: first + second, part: 'second' }];
  return [{ from: 0, to: second, part: 'second' }, { from: 0, to: first, part: 'first' }];
} // prettier-ignore

/** @param {number[]} values */
function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

/** @param {number} value */
function at(value) {
  return Number(value.toFixed(1));
}

/** @param {string} text */
function escape(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

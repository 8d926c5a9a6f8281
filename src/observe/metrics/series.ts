import { Gauge, type Metric, register } from 'prom-client';

/** One value as prom-client renders and sums it. */
interface Sample {
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
  readonly metricName?: string;
}

/** One series of a {@link Counts}. Whoever counts adds to its value. */
export interface Series {
  value: number;
}

/** What takes the place of further values of a label when it has too many. */
export const OTHER = 'other';

/**
 * A counter whose series are looked up once and then added to. prom-client's own one builds a text of all
 * labels at each count, which costs a proxied request more than its decision.
 */
export class Counts {
  readonly type = 'counter';
  readonly aggregator = 'sum';
  readonly name: string;
  readonly help: string;
  readonly #series: { readonly labels: Readonly<Record<string, string>>; readonly series: Series }[] = [];

  constructor(name: string, help: string) {
    this.name = name;
    this.help = help;
    register.registerMetric(this as unknown as Metric);
  }

  get size(): number {
    return this.#series.length;
  }

  /** Makes a series. Whoever asks keeps it: the same labels twice would be two series of one name. */
  add(labels: Readonly<Record<string, string>>): Series {
    const series = { value: 0 };
    this.#series.push({ labels, series });
    return series;
  }

  /** For prom-client. */
  async get() {
    const { type, aggregator, name, help } = this;
    const values = this.#series.map(({ labels, series }): Sample => ({ labels, value: series.value }));
    return { type, aggregator, name, help, values };
  }

  /** For prom-client. */
  reset(): void {
    for (const { series } of this.#series) series.value = 0;
  }
}

/** Upper bounds in seconds: from a decision out of memory (50 µs) to the longest waits that are configured (30 s). */
const BOUNDS: readonly number[] = [
  0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
  30,
];

/** A histogram of durations by one label, or by none. */
export class Histogram {
  readonly type = 'histogram';
  readonly aggregator = 'sum';
  readonly name: string;
  readonly help: string;
  readonly #label: string | null;
  readonly #max: number;
  readonly #series = new Map<string, HistogramSeries>();

  /**
   * @param label null for one series
   * @param max values of the label; the rest is counted as {@link OTHER}
   */
  constructor(name: string, help: string, label: string | null = null, max = 100) {
    this.name = name;
    this.help = help;
    this.#label = label;
    this.#max = max;
    if (label === null) this.of('');
    register.registerMetric(this as unknown as Metric);
  }

  /** The series of a value of the label. */
  of(value: string): HistogramSeries {
    let series = this.#series.get(value);
    if (series === undefined) {
      if (this.#series.size >= this.#max && value !== OTHER) return this.of(OTHER);
      this.#series.set(value, (series = new HistogramSeries()));
    }
    return series;
  }

  /** For prom-client. */
  async get() {
    const { type, aggregator, name, help } = this;
    const values: Sample[] = [];
    for (const [value, series] of this.#series)
      values.push(...series.samples(name, this.#label === null ? {} : { [this.#label]: value }));
    return { type, aggregator, name, help, values };
  }

  /** For prom-client. */
  reset(): void {
    this.#series.clear();
    if (this.#label === null) this.of('');
  }
}

export class HistogramSeries {
  readonly #counts = new Float64Array(BOUNDS.length + 1);
  #sum = 0;

  observe(seconds: number): void {
    let i = 0;
    while (i < BOUNDS.length && seconds > (BOUNDS[i] as number)) i += 1;
    (this.#counts[i] as number) += 1;
    this.#sum += seconds;
  }

  /** Its buckets, each with those below it, its sum and its count. */
  samples(name: string, labels: Readonly<Record<string, string>>): Sample[] {
    let count = 0;
    const samples = [...this.#counts].map((each, i): Sample => {
      count += each;
      return { labels: { le: BOUNDS[i] ?? '+Inf', ...labels }, value: count, metricName: `${name}_bucket` };
    });
    samples.push({ labels, value: this.#sum, metricName: `${name}_sum` });
    samples.push({ labels, value: count, metricName: `${name}_count` });
    return samples;
  }
}

/**
 * Registers a gauge whose values are read when somebody asks for the metrics.
 *
 * @param read values by the one label, or a number when there is none
 * @param aggregator how values of several processes become one
 */
export function gaugeOnDemand(
  name: string,
  help: string,
  read: () => number | Iterable<readonly [string, number]>,
  { label, aggregator = 'sum' }: { readonly label?: string; readonly aggregator?: 'sum' | 'max' } = {},
): void {
  const gauge = new Gauge({
    name,
    help,
    aggregator,
    labelNames: label === undefined ? [] : [label],
    registers: [],
    collect() {
      const values = read();
      if (typeof values === 'number') this.set(values);
      else {
        this.reset();
        for (const [value, number] of values) this.set({ [label ?? '']: value }, number);
      }
    },
  });
  register.registerMetric(gauge);
}

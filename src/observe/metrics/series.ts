// src/observe/metrics: what every request increments.
// May import what observe may.
// `requests.ts` counts; this file has the kinds of metrics.

import { Counter, Gauge, type Metric, type MetricConfiguration, register } from 'prom-client';

interface Sample {
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
  readonly metricName?: string;
}

/** One series of a {@link Counts}. Callers increment its value directly. */
export interface Series {
  value: number;
}

type Aggregator = MetricConfiguration<string>['aggregator'];

export function counter<T extends string>(
  name: string,
  help: string,
  labelNames: readonly T[] = [],
): Counter<T> {
  return new Counter({ name, help, labelNames });
}

/** @param aggregator how the values of several processes are combined */
export function gauge<T extends string>(
  name: string,
  help: string,
  aggregator: Aggregator = 'sum',
  labelNames: readonly T[] = [],
): Gauge<T> {
  return new Gauge({ name, help, aggregator, labelNames });
}

export const OTHER = 'other';

/** A metric as prom-client reads it, which the processes of a server add up. */
abstract class SummedMetric {
  readonly type: 'counter' | 'histogram';
  readonly name: string;
  readonly help: string;

  constructor(type: SummedMetric['type'], name: string, help: string) {
    this.type = type;
    this.name = name;
    this.help = help;
    register.registerMetric(this as unknown as Metric);
  }

  protected abstract samples(): Sample[];

  async get() {
    const { type, name, help } = this;
    return { type, aggregator: 'sum', name, help, values: this.samples() };
  }
}

/** A counter whose series are kept: prom-client's look-up costs a request more than its decision. */
export class Counts extends SummedMetric {
  readonly #series: { readonly labels: Readonly<Record<string, string>>; readonly series: Series }[] = [];

  constructor(name: string, help: string) {
    super('counter', name, help);
  }

  get size(): number {
    return this.#series.length;
  }

  /** Creates a series, which callers keep: the same labels twice would be two series. */
  add(labels: Readonly<Record<string, string>>): Series {
    const series = { value: 0 };
    this.#series.push({ labels, series });
    return series;
  }

  protected samples(): Sample[] {
    return this.#series.map(({ labels, series }) => ({ labels, value: series.value }));
  }
}

/** Upper bounds in seconds, from an in-memory decision (50 µs) to the longest configured waits (30 s). */
const BOUNDS: readonly number[] = [
  0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
  30,
];

/** Maximum number of label values of a histogram; further ones count as {@link OTHER}. */
const MAX_LABEL_VALUES = 100;

export class Histogram extends SummedMetric {
  readonly #label: string | null;
  readonly #series = new Map<string, HistogramSeries>();

  /** @param label null for a single series */
  constructor(name: string, help: string, label: string | null = null) {
    super('histogram', name, help);
    this.#label = label;
    if (label === null) this.of('');
  }

  of(value: string): HistogramSeries {
    let series = this.#series.get(value);
    if (series === undefined) {
      if (this.#series.size >= MAX_LABEL_VALUES && value !== OTHER) return this.of(OTHER);
      this.#series.set(value, (series = new HistogramSeries()));
    }
    return series;
  }

  protected samples(): Sample[] {
    return [...this.#series].flatMap(([value, series]) =>
      series.samples(this.name, this.#label === null ? {} : { [this.#label]: value }),
    );
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

/** Registers a gauge that is read on each scrape: a number, or values by that of its label. */
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

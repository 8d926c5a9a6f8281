import type { Fault } from './faults.js';

/** What a scanner of bytes says instead of an index. */
export const INCOMPLETE = -1;
export const REFUSED = -2;

/** What the scanners of lines have in common: what they refuse, and where. */
export abstract class LineScanner {
  fault: Fault | undefined;
  /** Index of the refused byte, relative to the first one of the head or section. */
  faultAt = 0;

  protected refuse(fault: Fault, at: number): typeof REFUSED {
    this.fault = fault;
    this.faultAt = at;
    return REFUSED;
  }
}

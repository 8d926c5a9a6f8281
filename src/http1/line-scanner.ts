import type { Fault } from './faults.js';

/** Results of a scan other than an index. */
export const INCOMPLETE = -1;
export const REFUSED = -2;

/** Base class of the line scanners: the fault and its position. */
export abstract class LineScanner {
  fault: Fault | undefined;
  /** Index of the refused byte, relative to the first byte of the head or section. */
  faultAt = 0;

  protected refuse(fault: Fault, at: number): typeof REFUSED {
    this.fault = fault;
    this.faultAt = at;
    return REFUSED;
  }
}

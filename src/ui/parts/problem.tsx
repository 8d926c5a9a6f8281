import type { ComponentChildren } from 'preact';
import type { Failure } from '../api.js';
import { explainFailure } from '../words.js';

interface ProblemProps {
  readonly failure?: Failure | undefined;
  readonly children?: ComponentChildren;
  readonly onRetry?: () => void;
}

/** Says what went wrong and what to do, and offers to try again where that makes sense. */
export function Problem({ failure, children, onRetry }: ProblemProps) {
  return (
    <div class="notice bad" role="alert">
      <p>{children ?? (failure === undefined ? '' : explainFailure(failure))}</p>
      {onRetry !== undefined && (
        <button type="button" class="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

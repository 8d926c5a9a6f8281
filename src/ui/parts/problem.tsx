import type { ComponentChildren } from 'preact';
import type { Failure } from '../api.js';
import { explainFailure } from '../words.js';

interface ProblemProps {
  readonly failure?: Failure | undefined;
  readonly children?: ComponentChildren;
  readonly onRetry?: () => void;
}

/** Explains an error and what to do, and offers a retry where that makes sense. */
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

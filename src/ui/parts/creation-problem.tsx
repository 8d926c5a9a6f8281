import { type Failure, isUnconfirmed, isWrongGrant } from '../api.js';
import { useApp } from '../app-context.js';
import { Problem } from './problem.js';

/** Explains why a token was not created, or that it may have been. */
export function CreationProblem({ failure }: { readonly failure: Failure | undefined }) {
  const { caller } = useApp();
  if (failure === undefined || failure.kind === 'ended') return null;
  if (failure.kind === 'no_answer') {
    return (
      <Problem>
        The server did not respond. Check your connection and try again. If your list then has this token twice,
        revoke the older one: nobody has its secret.
      </Problem>
    ); // prettier-ignore
  }
  if (isWrongGrant(failure)) {
    return <Problem>The password is wrong. Enter it again.</Problem>;
  }
  if (isUnconfirmed(failure, caller)) {
    return <Problem>You confirmed that it is you more than five minutes ago. Log in once more.</Problem>;
  }
  return <Problem failure={failure} />;
}

import { useApp } from '../app-context.js';
import { LINKS } from '../routes.js';

/** Tells the user that their role may not list tokens, and what they can do instead. */
export function MayNotList({ whose }: { readonly whose: 'own' | 'organisation' }) {
  const { role } = useApp().caller.user;
  const own = whose === 'own';
  return (
    <>
      <div class="title">
        <h1 tabIndex={-1}>{own ? 'My tokens' : 'Tokens of the organisation'}</h1>
        {own && (
          <a class="button main" href={LINKS.new}>
            Create token
          </a>
        )}
      </div>
      <div class="empty">
        <h2>Your role cannot list tokens here</h2>
        <p>
          You are logged in with the role <strong>{role}</strong>. {own ? 'You can still create a token. ' : ''}
          To look one up or revoke it, ask a superuser of your organisation. A token can also revoke itself, with{' '}
          <code>DELETE /tokens/self</code>.
        </p>
      </div>
    </>
  ); // prettier-ignore
}

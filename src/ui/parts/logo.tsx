/** A keyhole, the page's mark. */
export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M16 7a5 5 0 0 0-2.4 9.4L12.500 24h7l-1.1-7.600A5 5 0 0 0 16 7z" />
    </svg>
  );
}

let second = 0;
let text = '';

/** The value of a Date field (RFC 9110 6.6.1), made once a second. */
export function httpDate(): string {
  const now = Math.floor(Date.now() / 1_000);
  if (now !== second) {
    second = now;
    text = new Date(now * 1_000).toUTCString();
  }
  return text;
}

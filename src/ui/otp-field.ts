/** Returns the name of the one-time password field. The server writes it into the document. */
export function otpFieldName(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="one-time-password-field"]')?.content ?? '';
}

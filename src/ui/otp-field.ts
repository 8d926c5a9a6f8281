/** The name of the field that carries a one-time password, which the server writes into the document. */
export function otpFieldName(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="one-time-password-field"]')?.content ?? '';
}

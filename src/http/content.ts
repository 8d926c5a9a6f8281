/** A body as it is sent. */
export interface Content {
  readonly type: string;
  readonly bytes: Buffer;
  /**
   * Whether caches may keep it forever, because changed content has another
   * name; otherwise `no-store`.
   */
  readonly immutable: boolean;
}

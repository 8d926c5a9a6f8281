/** A sleep of one loop that other code can end early. It does not keep the process alive. */
export class WakeableSleep {
  #end: () => void = () => undefined;

  async sleep(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms).unref();
      this.#end = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  wake(): void {
    this.#end();
  }
}

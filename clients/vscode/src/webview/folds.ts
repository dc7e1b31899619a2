/** Which rows the person has folded or unfolded: kept while the rows themselves come and go. */
export class Folds {
  private readonly folds = new Map<string, boolean>();

  /** What the person chose; undefined: nothing yet. */
  get(key: string): boolean | undefined {
    return this.folds.get(key);
  }

  set(key: string, open: boolean): void {
    this.folds.set(key, open);
  }
}

/**
 * Where the rows of a long list stand: heights, some of them measured and the others guessed.
 *
 * Sums are kept in a Fenwick tree: a height is changed, an offset asked for and a row found in O(log n).
 */
export class Offsets {
  private heights: number[] = [];
  private sums: number[] = [0];

  get length(): number {
    return this.heights.length;
  }

  get total(): number {
    return this.top(this.heights.length);
  }

  /** Begins anew. */
  reset(heights: number[]): void {
    this.heights = heights;
    const size = heights.length;
    this.sums = new Array<number>(size + 1).fill(0);
    for (let i = 1; i <= size; i++) {
      this.sums[i] = (this.sums[i] ?? 0) + (heights[i - 1] ?? 0);
      const parent = i + (i & -i);
      if (parent <= size) this.sums[parent] = (this.sums[parent] ?? 0) + (this.sums[i] ?? 0);
    }
  }

  height(index: number): number {
    return this.heights[index] ?? 0;
  }

  set(index: number, height: number): void {
    const change = height - this.height(index);
    if (change === 0) return;
    this.heights[index] = height;
    for (let i = index + 1; i < this.sums.length; i += i & -i) this.sums[i] = (this.sums[i] ?? 0) + change;
  }

  /** Where a row begins. */
  top(index: number): number {
    let sum = 0;
    for (let i = index; i > 0; i -= i & -i) sum += this.sums[i] ?? 0;
    return sum;
  }

  /** The row at an offset; the last one below all of them. */
  at(offset: number): number {
    let index = 0;
    let left = offset;
    let step = 1;
    while (step * 2 <= this.heights.length) step *= 2;
    for (; step > 0; step = Math.floor(step / 2)) {
      const sum = this.sums[index + step];
      if (index + step <= this.heights.length && sum !== undefined && sum <= left) {
        index += step;
        left -= sum;
      }
    }
    return Math.max(0, Math.min(index, this.heights.length - 1));
  }
}

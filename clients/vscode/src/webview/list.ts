/**
 * A list of any length of which only what is seen is in the page.
 *
 * Rows stand absolutely; heights are guessed until they have been measured. What is read stays where it is while
 * rows above it come or change, and the end is followed only while it is looked at. Making rows is given a share of
 * each frame; what does not fit is made in the next.
 */
import { Offsets } from "../view/offsets";
import type { Row } from "../view/rows";

export interface RowView {
  readonly element: HTMLElement;
  /** Draws the row as it is now. */
  update(): void;
}

/** What the list needs to know of its rows. */
export interface RowMaker {
  make(row: Row): RowView;
  /** A guess, in pixels. */
  estimate(row: Row, width: number): number;
}

interface Mounted {
  row: Row;
  view: RowView;
  version: number;
}

/** Pixels above and below what is seen that are drawn as well. */
const OVERSCAN = 600;
/** Milliseconds of a frame for making rows; one at least is made. */
const BUDGET = 12;
/** Closer to the end than this counts as being there, in pixels. */
const NEAR_END = 24;

export class VirtualList {
  /** The end is followed. */
  stuck = true;
  /** Called when the person scrolled, or the list did. */
  onScroll: () => void = () => {};

  private rows: readonly Row[] = [];
  private readonly offsets = new Offsets();
  private readonly measured = new Map<string, number>();
  private readonly mounted = new Map<string, Mounted>();
  private indexes = new Map<string, number>();
  private readonly canvas: HTMLElement;
  private readonly observer: ResizeObserver;
  private lastTop = 0;
  private lastHeight = 0;
  private frame = 0;

  constructor(
    private readonly scroller: HTMLElement,
    private readonly maker: RowMaker,
  ) {
    this.canvas = document.createElement("div");
    this.canvas.className = "canvas";
    this.canvas.setAttribute("role", "feed");
    scroller.append(this.canvas);
    scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.observer = new ResizeObserver((entries) => this.resized(entries));
    this.observer.observe(scroller);
  }

  /** Takes other rows, or the same in another order. */
  setRows(rows: readonly Row[]): void {
    const anchor = this.anchor();
    this.rows = rows;
    this.indexes = new Map(rows.map((row, index) => [row.key, index]));
    const width = this.scroller.clientWidth;
    this.offsets.reset(rows.map((row) => this.measured.get(row.key) ?? this.maker.estimate(row, width)));
    for (const [key, mounted] of this.mounted) {
      const index = this.indexes.get(key);
      if (index === undefined || rows[index]?.kind !== mounted.row.kind) this.unmount(key);
    }
    this.render(anchor);
  }

  /** Draws what has changed in rows that are seen. */
  refresh(): void {
    this.render(this.anchor());
  }

  scrollToEnd(): void {
    this.stuck = true;
    this.render(null);
  }

  /** Brings a row into sight and gives its element. */
  reveal(key: string): HTMLElement | undefined {
    const index = this.indexes.get(key);
    if (index === undefined) return undefined;
    this.stuck = false;
    const middle = (this.scroller.clientHeight - this.offsets.height(index)) / 2;
    this.setTop(this.offsets.top(index) - Math.max(16, middle));
    this.render(this.anchor());
    return this.mounted.get(key)?.view.element;
  }

  /** Whether any of a row is seen. */
  isSeen(key: string): boolean {
    const index = this.indexes.get(key);
    if (index === undefined) return false;
    const top = this.offsets.top(index) - this.scroller.scrollTop;
    return top < this.scroller.clientHeight && top + this.offsets.height(index) > 0;
  }

  get atTop(): boolean {
    return this.scroller.scrollTop < OVERSCAN;
  }

  private scrolled(): void {
    this.follow();
    this.later();
    this.onScroll();
  }

  // Whether the end is followed, after the person has scrolled. The event may come later than what we draw.
  private follow(): void {
    const top = this.scroller.scrollTop;
    const height = this.scroller.clientHeight;
    const toEnd = this.offsets.total - top - height;
    // What moves because the view is another size was not moved by the person.
    if (top < this.lastTop - 1 && height === this.lastHeight) this.stuck = toEnd < 2;
    else if (top > this.lastTop && toEnd < NEAR_END) this.stuck = true;
    this.lastTop = top;
    this.lastHeight = height;
  }

  private later(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.render(this.anchor());
    });
  }

  // The row at the upper edge, and how far into it the edge is.
  private anchor(): { key: string; into: number } | null {
    this.follow();
    if (this.stuck || this.rows.length === 0) return null;
    const top = this.scroller.scrollTop;
    const index = this.offsets.at(top);
    const row = this.rows[index];
    return row ? { key: row.key, into: top - this.offsets.top(index) } : null;
  }

  private render(anchor: { key: string; into: number } | null): void {
    this.updateMounted();
    this.hold(anchor);
    const until = performance.now() + BUDGET;
    // Rows that are made turn out higher or lower than guessed, so that others come into sight.
    for (let round = 0; round < 4; round++) {
      const made = this.mountRange(0, until);
      if (made.length === 0) break;
      this.measure(made);
      this.hold(anchor);
    }
    const around = this.mountRange(OVERSCAN, until);
    this.measure(around);
    this.hold(anchor);
    this.unmountFar();
    this.place();
  }

  private updateMounted(): void {
    const changed: Mounted[] = [];
    for (const mounted of this.mounted.values()) {
      const row = this.rows[this.indexes.get(mounted.row.key) ?? -1];
      if (row && row !== mounted.row) this.unmount(row.key);
      else if (mounted.version !== mounted.row.version) {
        mounted.version = mounted.row.version;
        mounted.view.update();
        changed.push(mounted);
      }
    }
    this.measure(changed);
  }

  private range(around: number): [number, number] {
    const top = this.scroller.scrollTop;
    const first = this.offsets.at(Math.max(0, top - around));
    const last = this.offsets.at(top + this.scroller.clientHeight + around);
    return [first, last];
  }

  private mountRange(around: number, until: number): Mounted[] {
    const made: Mounted[] = [];
    if (this.rows.length === 0) return made;
    const [first, last] = this.range(around);
    // When the end is followed, what is nearest to it matters most.
    for (let step = 0; step <= last - first; step++) {
      const index = this.stuck ? last - step : first + step;
      const row = this.rows[index];
      if (!row || this.mounted.has(row.key)) continue;
      if (performance.now() > until && (around > 0 || made.length > 0)) {
        this.later();
        break;
      }
      made.push(this.mount(row, index));
    }
    return made;
  }

  private mount(row: Row, index: number): Mounted {
    const view = this.maker.make(row);
    const mounted = { row, view, version: row.version };
    view.element.classList.add("row");
    view.element.setAttribute("role", "article");
    view.element.dataset.key = row.key;
    this.mounted.set(row.key, mounted);
    this.canvas.insertBefore(view.element, this.elementAfter(index));
    this.observer.observe(view.element);
    return mounted;
  }

  // Rows stand in the page in the order in which they are read.
  private elementAfter(index: number): HTMLElement | null {
    let next: HTMLElement | null = null;
    let nearest = Number.POSITIVE_INFINITY;
    for (const [key, mounted] of this.mounted) {
      const at = this.indexes.get(key) ?? -1;
      if (at > index && at < nearest && mounted.view.element.parentNode) {
        nearest = at;
        next = mounted.view.element;
      }
    }
    return next;
  }

  private unmount(key: string): void {
    const mounted = this.mounted.get(key);
    if (!mounted) return;
    this.observer.unobserve(mounted.view.element);
    mounted.view.element.remove();
    this.mounted.delete(key);
  }

  private unmountFar(): void {
    const [first, last] = this.range(OVERSCAN * 2);
    const keep = this.held();
    for (const [key, mounted] of this.mounted) {
      const index = this.indexes.get(key) ?? -1;
      if ((index < first || index > last) && !keep(mounted.view.element)) this.unmount(key);
    }
  }

  // What has the focus, or is selected, is not taken away.
  private held(): (element: HTMLElement) => boolean {
    const focused = document.activeElement;
    const selection = document.getSelection();
    const selected = selection && !selection.isCollapsed && this.mounted.size < 300 ? selection : null;
    return (element) => element.contains(focused) || selected?.containsNode(element, true) === true;
  }

  private measure(rows: Mounted[]): void {
    for (const { row, view } of rows) this.setHeight(row.key, view.element.offsetHeight);
  }

  private setHeight(key: string, height: number): boolean {
    const index = this.indexes.get(key);
    if (index === undefined || height === 0) return false;
    this.measured.set(key, height);
    if (this.offsets.height(index) === height) return false;
    this.offsets.set(index, height);
    return true;
  }

  private resized(entries: ResizeObserverEntry[]): void {
    const anchor = this.anchor();
    let changed = false;
    for (const { target } of entries) {
      if (target === this.scroller) changed = true;
      else if (target instanceof HTMLElement && target.dataset.key !== undefined) {
        changed = this.setHeight(target.dataset.key, target.offsetHeight) || changed;
      }
    }
    if (!changed) return;
    this.hold(anchor);
    this.place();
    this.later();
  }

  private hold(anchor: { key: string; into: number } | null): void {
    this.canvas.style.height = `${this.offsets.total}px`;
    if (this.stuck) this.setTop(this.offsets.total - this.scroller.clientHeight);
    else if (anchor) {
      const index = this.indexes.get(anchor.key);
      if (index !== undefined) this.setTop(this.offsets.top(index) + anchor.into);
    }
  }

  private setTop(top: number): void {
    const wanted = Math.max(0, Math.round(top));
    if (Math.abs(this.scroller.scrollTop - wanted) >= 1) this.scroller.scrollTop = wanted;
    this.lastTop = this.scroller.scrollTop;
  }

  private place(): void {
    for (const [key, { view }] of this.mounted) {
      const index = this.indexes.get(key);
      if (index === undefined) continue;
      const transform = `translateY(${this.offsets.top(index)}px)`;
      if (view.element.style.transform !== transform) view.element.style.transform = transform;
      view.element.setAttribute("aria-posinset", String(index + 1));
      view.element.setAttribute("aria-setsize", String(this.rows.length));
    }
  }
}

import type { Capacity } from "../../../shared/queue/backend.ts";
import type { QueueName } from "../../../shared/queue/queue-name.ts";
import { createMemoryBudget, createSlots } from "./slots.ts";

/**
 * Maximum number of calls in a row that a queue runs in one slot while other queues wait for it. The limit is not 1, because
 * a change to another queue costs an additional round trip. Only the next call of the same queue can be taken in the step
 * that ends a call.
 */
const CALLS_A_TURN = 8;

/** A queue of one partition. There is one object for each queue. Queues with this name in other partitions share its gate. */
export type Source = { readonly queue: QueueName; readonly gate: string };

/** A slot for a call of this queue, until the slot is released. */
export type Turn<One extends Source = Source> = Capacity & { readonly source: One };

/**
 * Decides which queue may use the next free slot of a producer. The queues that may have calls take turns. A queue that is
 * not known to have calls costs nothing. All queues of a job share the job's part of the slots, across partitions. The queues
 * of a receiver of callbacks share the receiver's part in the same way. A large call waits for memory. A call that must be
 * taken alone waits until no slot is in use. No other call is taken until it has ended.
 */
export class Turns<One extends Source = Source> {
  readonly #count: number;
  readonly #isClosed: (source: One) => boolean;
  readonly #slots: ReturnType<typeof createSlots>;
  readonly #memory: ReturnType<typeof createMemoryBudget>;
  /**
   * Queues that may have calls. Each call of `add` is a notice that a queue may have calls. The notices are numbered, and the
   * value is the number of the queue's newest notice.
   */
  readonly #ready = new Map<One, number>();
  /** Queues with fetches in flight, and the number of those fetches. */
  readonly #fetching = new Map<One, number>();
  /**
   * Number of calls that still waited in a queue when the last fetch from it ended. At most this many fetches from the queue
   * run at once, but one is always possible.
   */
  readonly #waiting = new Map<One, number>();
  readonly #callsInTurn = new Map<One, number>();
  /** Queues whose next call is too large for the memory of one slot, with its stored size. */
  readonly #large = new Map<One, number>();
  /** The queue whose next call must be taken alone, until that call has ended. */
  #alone: { readonly source: One; isTaken: boolean } | undefined;
  #notices = 0;

  constructor({
    slots,
    bytes,
    isClosed,
  }: {
    slots: number;
    /** Limit of the stored bytes of the calls in flight. */
    bytes: number;
    /** Returns true while calls of this queue cannot be taken or delivered. */
    isClosed: (source: One) => boolean;
  }) {
    this.#count = slots;
    this.#isClosed = isClosed;
    this.#slots = createSlots(slots);
    this.#memory = createMemoryBudget(bytes, slots);
  }

  /** Notes that the queue may have calls. */
  add(source: One): void {
    this.#notices += 1;
    this.#ready.set(source, this.#notices);
  }

  /**
   * Removes a queue. The listener calls this when it puts the queue's name back into Redis for other workers, because this
   * worker has no free slot (listen.ts). If this worker pops the name again, it adds the queue again.
   */
  remove(source: One): void {
    this.#ready.delete(source);
  }

  /** Number of notices so far. Each call of `add` is a notice that a queue may have calls. */
  get notices(): number {
    return this.#notices;
  }

  /** Queues that may have calls. */
  get ready(): One[] {
    return [...this.#ready.keys()];
  }

  /**
   * Notes that a fetch found no call. `noticesBefore` is the number of notices when the fetch began. If the queue got a
   * notice after that, a call may have been added during the fetch, and the queue stays ready.
   */
  noteEmpty(source: One, noticesBefore: number): void {
    if ((this.#ready.get(source) ?? 0) > noticesBefore) return;
    this.#ready.delete(source);
    this.#callsInTurn.delete(source);
  }

  /** Notes the stored size of the queue's next call. */
  noteLarge(source: One, bytes: number): void {
    this.#large.set(source, bytes);
  }

  /** True while a call waits to be taken alone or runs alone. */
  get isAlone(): boolean {
    return this.#alone !== undefined;
  }

  /** Notes that the queue's next call must be taken alone. */
  reserveAlone(source: One): void {
    this.#alone ??= { source, isTaken: false };
  }

  /**
   * Takes a slot for the queue whose turn it is. The caller then fetches a call from the queue, and calls `noteFetched` when
   * the fetch has ended.
   */
  next(): Turn<One> | undefined {
    if (this.#slots.free() === 0) return undefined;
    return this.#alone === undefined ? this.#nextInTurn() : this.#nextAlone(this.#alone);
  }

  /** Notes the end of a fetch. `waiting` calls are still in the queue. This number limits the queue's concurrent fetches. */
  noteFetched(source: One, waiting = 0): void {
    const inFlight = (this.#fetching.get(source) ?? 0) - 1;
    if (inFlight > 0) this.#fetching.set(source, inFlight);
    else this.#fetching.delete(source);
    if (waiting > 0) this.#waiting.set(source, waiting);
    else this.#waiting.delete(source);
    this.#large.delete(source);
  }

  /** Decides after a call whether its queue keeps the slot for another call. */
  mayKeepSlot({ source, bytes }: Turn<One>): boolean {
    const isLarge = bytes === undefined || bytes > this.bytesOfSlot;
    if (isLarge || this.#alone !== undefined) return false;
    const { gate } = source;
    this.#slots.release(gate);
    const keeps = this.#mayTake(source) && !this.#endTurn(source);
    this.#slots.take(gate);
    return keeps;
  }

  release({ source, bytes, alone }: Turn<One>): void {
    const { gate } = source;
    if (alone) this.#alone = undefined;
    else if (bytes !== undefined && bytes > this.bytesOfSlot) this.#memory.release(gate, bytes);
    this.#slots.release(gate);
  }

  /** Returns whether a fetch from this queue is in flight. */
  isFetching(source: One): boolean {
    return this.#fetching.has(source);
  }

  /** Maximum stored size of a call that needs no memory beyond that of its slot. */
  get bytesOfSlot(): number {
    return this.#memory.bytesPerSlot;
  }

  /** Returns whether another call of this queue can be taken now. */
  isWanted(source: One): boolean {
    return this.#alone === undefined && this.#mayTake(source) && this.#hasMemoryFor(source);
  }

  /** Number of slots that are free for a call. */
  get freeSlots(): number {
    return this.#alone === undefined ? this.#slots.free() : 0;
  }

  /** Resolves once a slot is free. */
  async untilFreeSlot(): Promise<void> {
    while (this.freeSlots === 0) await this.#slots.untilReleased();
  }

  #mayTake(source: One): boolean {
    return this.#slots.mayTake(source.gate) && !this.#isClosed(source);
  }

  /** Returns whether a fetch from this queue may begin now. This does not check the memory for a large call. */
  #isNext(source: One): boolean {
    const inFlight = this.#fetching.get(source) ?? 0;
    const most = this.#large.has(source) ? 0 : (this.#waiting.get(source) ?? 0);
    return (inFlight === 0 || inFlight < most) && this.#mayTake(source);
  }

  #hasMemoryFor(source: One): boolean {
    const bytes = this.#large.get(source);
    return bytes === undefined || this.#memory.mayTake(source.gate, bytes);
  }

  /**
   * Counts a call of the queue's turn. Returns true if the turn ends because another queue waits for the slot. That queue
   * must be of the same job, or of a job that holds fewer slots. If both jobs hold as many slots, passing one on would not
   * make their shares more equal. The caller must have released the queue's slot before, so that the slot is not counted as
   * held.
   */
  #endTurn(source: One): boolean {
    if (this.#ready.size < 2) return false;
    const calls = (this.#callsInTurn.get(source) ?? 0) + 1;
    this.#callsInTurn.set(source, calls % CALLS_A_TURN);
    if (calls < CALLS_A_TURN) return false;
    for (const other of this.#ready.keys()) {
      if (
        other !== source &&
        this.#yieldsTo(source, other) &&
        this.#isNext(other) &&
        this.#hasMemoryFor(other)
      )
        return true;
    }
    return false;
  }

  #yieldsTo(source: One, other: One): boolean {
    const [gate, otherGate] = [source.gate, other.gate];
    return gate === otherGate || this.#slots.of(otherGate) < Math.max(1, this.#slots.of(gate));
  }

  /**
   * Takes a slot for the first ready queue. While a large call waits for memory, the large calls of the queues behind it also
   * wait. Otherwise they could again and again use the memory that becomes free, and the first call would wait forever.
   */
  #nextInTurn(): Turn<One> | undefined {
    let isShort = false;
    for (const source of this.#ready.keys()) {
      if (!this.#isNext(source)) continue;
      const bytes = this.#large.get(source);
      if (bytes === undefined) return this.#begin(source, { bytes: this.bytesOfSlot });
      if (!isShort && this.#hasMemoryFor(source)) {
        this.#memory.take(source.gate, bytes);
        return this.#begin(source, { bytes });
      }
      isShort ||= this.#memory.exceedsFree(bytes);
    }
    return undefined;
  }

  #nextAlone(next: { readonly source: One; isTaken: boolean }): Turn<One> | undefined {
    if (next.isTaken || this.#slots.free() < this.#count) return undefined;
    if (this.#isClosed(next.source)) {
      this.#alone = undefined;
      return this.#nextInTurn();
    }
    next.isTaken = true;
    return this.#begin(next.source, { bytes: undefined, alone: true });
  }

  #begin(source: One, { bytes, alone = false }: { bytes: number | undefined; alone?: boolean }): Turn<One> {
    const noticeNumber = this.#ready.get(source);
    if (noticeNumber !== undefined) {
      this.#ready.delete(source);
      this.#ready.set(source, noticeNumber);
    }
    this.#fetching.set(source, (this.#fetching.get(source) ?? 0) + 1);
    this.#slots.take(source.gate);
    return { source, bytes, alone };
  }
}

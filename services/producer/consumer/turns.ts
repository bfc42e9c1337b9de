import type { Room } from "../../../shared/queue/backend.ts";
import type { QueueName } from "../../../shared/queue/queue-name.ts";
import { createRoom, createSlots } from "./slots.ts";

/** How many calls in a row a queue may have in one slot while others wait for a slot: a change of queue costs a round trip. */
const CALLS_A_TURN = 8;

/** A queue of one partition. There is one object for each. The queues of this name in other partitions go through the same gate. */
export type Source = { readonly queue: QueueName; readonly gate: string };

/** A slot for a call of this queue, until it is released. */
export type Turn<One extends Source = Source> = Room & { readonly source: One };

/**
 * Which queue may use the next free slot of a producer. Turns go round the queues that may have calls; a queue without calls
 * costs nothing. The queues of a job share its part of the slots, also those of other partitions. Those of a receiver of callbacks do likewise.
 * A large call waits for room. One that must be taken alone waits until no slot is in use; meanwhile no other call is taken.
 */
export class Turns<One extends Source = Source> {
  readonly #count: number;
  readonly #isClosed: (source: One) => boolean;
  readonly #slots: ReturnType<typeof createSlots>;
  readonly #room: ReturnType<typeof createRoom>;
  /** The queues that may have calls, each with the number of its last notice. */
  readonly #ready = new Map<One, number>();
  /** The queues that are fetched from, by how many fetches are under way. */
  readonly #fetching = new Map<One, number>();
  /** How many calls of a queue waited still when the last fetch ended. */
  readonly #waiting = new Map<One, number>();
  readonly #callsInTurn = new Map<One, number>();
  /** The queues whose next call is large, by its size. */
  readonly #large = new Map<One, number>();
  /** The queue whose next call is to be taken alone, until that has ended. */
  #alone: { readonly source: One; isTaken: boolean } | undefined;
  #told = 0;

  constructor({
    slots,
    bytes,
    isClosed,
  }: {
    slots: number;
    /** Limit of the stored bytes of the calls in flight. */
    bytes: number;
    /** Whether no call of this queue can be taken or delivered now. */
    isClosed: (source: One) => boolean;
  }) {
    this.#count = slots;
    this.#isClosed = isClosed;
    this.#slots = createSlots(slots);
    this.#room = createRoom(bytes, slots);
  }

  /** The queue may have calls. */
  add(source: One): void {
    this.#told += 1;
    this.#ready.set(source, this.#told);
  }

  /** Others are told of the queue, or this worker once more. */
  forget(source: One): void {
    this.#ready.delete(source);
  }

  /** How many notices there were. */
  get told(): number {
    return this.#told;
  }

  /** The queues that may have calls. */
  get ready(): One[] {
    return [...this.#ready.keys()];
  }

  /** The queue had no call that may be taken, by a look that began after so many notices. Those that came later count. */
  none(source: One, toldBefore: number): void {
    if ((this.#ready.get(source) ?? 0) > toldBefore) return;
    this.#ready.delete(source);
    this.#callsInTurn.delete(source);
  }

  /** The queue's next call is so large as stored. */
  large(source: One, bytes: number): void {
    this.#large.set(source, bytes);
  }

  /** Whether a call is to be taken alone, or is. */
  get isAlone(): boolean {
    return this.#alone !== undefined;
  }

  /** The queue's next call is to be taken alone. */
  alone(source: One): void {
    this.#alone ??= { source, isTaken: false };
  }

  /** Takes a slot for the queue whose turn it is. A fetch from it is under way until `fetched`. */
  next(): Turn<One> | undefined {
    if (this.#slots.free() === 0) return undefined;
    return this.#alone === undefined ? this.#nextInTurn() : this.#nextAlone(this.#alone);
  }

  /** A fetch has ended, and so many calls of the queue waited still: so many fetches may be under way. */
  fetched(source: One, waiting = 0): void {
    const underWay = (this.#fetching.get(source) ?? 0) - 1;
    if (underWay > 0) this.#fetching.set(source, underWay);
    else this.#fetching.delete(source);
    if (waiting > 0) this.#waiting.set(source, waiting);
    else this.#waiting.delete(source);
    this.#large.delete(source);
  }

  /** A call has ended. Whether the queue keeps the slot for its next call. */
  keeps({ source, bytes }: Turn<One>): boolean {
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
    else if (bytes !== undefined && bytes > this.bytesOfSlot) this.#room.release(gate, bytes);
    this.#slots.release(gate);
  }

  /** Whether a fetch from this queue is under way. */
  isFetching(source: One): boolean {
    return this.#fetching.has(source);
  }

  /** How large a call may be, as stored, that needs no more room than its slot has. */
  get bytesOfSlot(): number {
    return this.#room.ofSlot;
  }

  /** Whether another call of this queue can be taken now. */
  isWanted(source: One): boolean {
    return this.#alone === undefined && this.#mayTake(source) && this.#hasRoomFor(source);
  }

  /** How many slots are free for a call of some queue. */
  get freeSlots(): number {
    return this.#alone === undefined ? this.#slots.free() : 0;
  }

  /** Resolves once one is. */
  async untilFreeSlot(): Promise<void> {
    while (this.freeSlots === 0) await this.#slots.untilReleased();
  }

  #mayTake(source: One): boolean {
    return this.#slots.mayTake(source.gate) && !this.#isClosed(source);
  }

  /** Whether a fetch from this queue may begin now, if there is room. */
  #isNext(source: One): boolean {
    const underWay = this.#fetching.get(source) ?? 0;
    const most = this.#large.has(source) ? 0 : (this.#waiting.get(source) ?? 0);
    return (underWay === 0 || underWay < most) && this.#mayTake(source);
  }

  #hasRoomFor(source: One): boolean {
    const bytes = this.#large.get(source);
    return bytes === undefined || this.#room.mayTake(source.gate, bytes);
  }

  /**
   * Counts a call of the queue's turn, whose slot is free for now. Answers whether the turn ends with it, because another queue waits
   * for the slot: one of the same job, or of a job that holds fewer. To change with one that holds as many would help nobody.
   */
  #endTurn(source: One): boolean {
    if (this.#ready.size < 2) return false;
    const calls = (this.#callsInTurn.get(source) ?? 0) + 1;
    this.#callsInTurn.set(source, calls % CALLS_A_TURN);
    if (calls < CALLS_A_TURN) return false;
    for (const other of this.#ready.keys()) {
      if (other !== source && this.#givesWay(source, other) && this.#isNext(other) && this.#hasRoomFor(other))
        return true;
    }
    return false;
  }

  #givesWay(source: One, other: One): boolean {
    const [gate, otherGate] = [source.gate, other.gate];
    return gate === otherGate || this.#slots.of(otherGate) < Math.max(1, this.#slots.of(gate));
  }

  /** A large call for which there is no room lets no later one pass, or it could wait for ever. */
  #nextInTurn(): Turn<One> | undefined {
    let isShort = false;
    for (const source of this.#ready.keys()) {
      if (!this.#isNext(source)) continue;
      const bytes = this.#large.get(source);
      if (bytes === undefined) return this.#begin(source, { bytes: this.bytesOfSlot });
      if (!isShort && this.#hasRoomFor(source)) {
        this.#room.take(source.gate, bytes);
        return this.#begin(source, { bytes });
      }
      isShort ||= this.#room.isShort(bytes);
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
    const toldAt = this.#ready.get(source);
    if (toldAt !== undefined) {
      this.#ready.delete(source);
      this.#ready.set(source, toldAt);
    }
    this.#fetching.set(source, (this.#fetching.get(source) ?? 0) + 1);
    this.#slots.take(source.gate);
    return { source, bytes, alone };
  }
}

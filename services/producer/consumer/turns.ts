import type { Room } from "../../../shared/queue/backend.ts";
import { gateOf, type QueueName } from "../../../shared/queue/queue-name.ts";
import { createRoom, createSlots } from "./slots.ts";

/** How many calls in a row a queue may have in one slot while others wait for a slot: a change of queue costs a round trip. */
const CALLS_A_TURN = 8;

/** A slot for a call of this queue, until it is released. */
export type Turn = Room & { readonly queue: QueueName };

/**
 * Which queue may use the next free slot of a producer. Turns go round the queues that may have calls; a queue without calls
 * costs nothing. The queues of a job share its part of the slots, and those of a receiver of callbacks likewise. A large call waits for room, and one that is to be taken alone
 * waits until no slot is in use; meanwhile no other call is taken.
 */
export class Turns {
  readonly #count: number;
  readonly #isClosed: (gate: string) => boolean;
  readonly #slots: ReturnType<typeof createSlots>;
  readonly #room: ReturnType<typeof createRoom>;
  /** The queues that may have calls, each with the number of its last notice. */
  readonly #ready = new Map<QueueName, number>();
  /** The queues that are fetched from, by how many fetches are under way. */
  readonly #fetching = new Map<QueueName, number>();
  /** How many calls of a queue waited still when the last fetch ended. */
  readonly #waiting = new Map<QueueName, number>();
  readonly #callsInTurn = new Map<QueueName, number>();
  /** The queues whose next call is large, by its size. */
  readonly #large = new Map<QueueName, number>();
  /** The queue whose next call is to be taken alone, until that has ended. */
  #alone: { readonly queue: QueueName; isTaken: boolean } | undefined;
  #told = 0;

  constructor({
    slots,
    bytes,
    isClosed,
  }: {
    slots: number;
    /** So many bytes of calls, as stored, are in hand at once. */
    bytes: number;
    /** Whether the calls that go through a gate cannot be delivered now. */
    isClosed: (gate: string) => boolean;
  }) {
    this.#count = slots;
    this.#isClosed = isClosed;
    this.#slots = createSlots(slots);
    this.#room = createRoom(bytes, slots);
  }

  /** The queue may have calls. */
  add(queue: QueueName): void {
    this.#told += 1;
    this.#ready.set(queue, this.#told);
  }

  /** Others are told of the queue, or this worker once more. */
  forget(queue: QueueName): void {
    this.#ready.delete(queue);
  }

  /** How many notices there were. */
  get told(): number {
    return this.#told;
  }

  /** The queues that may have calls. */
  get ready(): QueueName[] {
    return [...this.#ready.keys()];
  }

  /** The queue had no call that may be taken, by a look that began after so many notices. Those that came later count. */
  none(queue: QueueName, toldBefore: number): void {
    if ((this.#ready.get(queue) ?? 0) > toldBefore) return;
    this.#ready.delete(queue);
    this.#callsInTurn.delete(queue);
  }

  /** The queue's next call is so large as stored. */
  large(queue: QueueName, bytes: number): void {
    this.#large.set(queue, bytes);
  }

  /** Whether a call is to be taken alone, or is. */
  get isAlone(): boolean {
    return this.#alone !== undefined;
  }

  /** The queue's next call is to be taken alone. */
  alone(queue: QueueName): void {
    this.#alone ??= { queue, isTaken: false };
  }

  /** Takes a slot for the queue whose turn it is. A fetch from it is under way until `fetched`. */
  next(): Turn | undefined {
    if (this.#slots.free() === 0) return undefined;
    return this.#alone === undefined ? this.#nextInTurn() : this.#nextAlone(this.#alone);
  }

  /** A fetch has ended, and so many calls of the queue waited still: so many fetches may be under way. */
  fetched(queue: QueueName, waiting = 0): void {
    const underWay = (this.#fetching.get(queue) ?? 0) - 1;
    if (underWay > 0) this.#fetching.set(queue, underWay);
    else this.#fetching.delete(queue);
    if (waiting > 0) this.#waiting.set(queue, waiting);
    else this.#waiting.delete(queue);
    this.#large.delete(queue);
  }

  /** A call has ended. Whether the queue keeps the slot for its next call. */
  keeps({ queue, bytes }: Turn): boolean {
    const isLarge = bytes === undefined || bytes > this.bytesOfSlot;
    if (isLarge || this.#alone !== undefined) return false;
    const gate = gateOf(queue);
    this.#slots.release(gate);
    const keeps = this.#mayTake(gate) && !this.#endTurn(queue);
    this.#slots.take(gate);
    return keeps;
  }

  release({ queue, bytes, alone }: Turn): void {
    const gate = gateOf(queue);
    if (alone) this.#alone = undefined;
    else if (bytes !== undefined && bytes > this.bytesOfSlot) this.#room.release(gate, bytes);
    this.#slots.release(gate);
  }

  /** Whether a fetch from this queue is under way. */
  isFetching(queue: QueueName): boolean {
    return this.#fetching.has(queue);
  }

  /** How large a call may be, as stored, that needs no more room than its slot has. */
  get bytesOfSlot(): number {
    return this.#room.ofSlot;
  }

  /** Whether another call of this queue can be taken now. */
  isWanted(queue: QueueName): boolean {
    return this.#alone === undefined && this.#mayTake(gateOf(queue)) && this.#hasRoomFor(queue);
  }

  /** How many slots are free for a call of some queue. */
  get freeSlots(): number {
    return this.#alone === undefined ? this.#slots.free() : 0;
  }

  /** Resolves once one is. */
  async untilFreeSlot(): Promise<void> {
    while (this.freeSlots === 0) await this.#slots.untilReleased();
  }

  #mayTake(gate: string): boolean {
    return this.#slots.mayTake(gate) && !this.#isClosed(gate);
  }

  /** Whether a fetch from this queue may begin now, if there is room. */
  #isNext(queue: QueueName): boolean {
    const underWay = this.#fetching.get(queue) ?? 0;
    const most = this.#large.has(queue) ? 0 : (this.#waiting.get(queue) ?? 0);
    return (underWay === 0 || underWay < most) && this.#mayTake(gateOf(queue));
  }

  #hasRoomFor(queue: QueueName): boolean {
    const bytes = this.#large.get(queue);
    return bytes === undefined || this.#room.mayTake(gateOf(queue), bytes);
  }

  /**
   * Counts a call of the queue's turn, whose slot is free for now. Answers whether the turn ends with it, because another queue waits
   * for the slot: one of the same job, or of a job that holds fewer. To change with one that holds as many would help nobody.
   */
  #endTurn(queue: QueueName): boolean {
    if (this.#ready.size < 2) return false;
    const calls = (this.#callsInTurn.get(queue) ?? 0) + 1;
    this.#callsInTurn.set(queue, calls % CALLS_A_TURN);
    if (calls < CALLS_A_TURN) return false;
    for (const other of this.#ready.keys()) {
      if (other !== queue && this.#givesWay(queue, other) && this.#isNext(other) && this.#hasRoomFor(other))
        return true;
    }
    return false;
  }

  #givesWay(queue: QueueName, other: QueueName): boolean {
    const [gate, otherGate] = [gateOf(queue), gateOf(other)];
    return gate === otherGate || this.#slots.of(otherGate) < Math.max(1, this.#slots.of(gate));
  }

  /** A large call for which there is no room lets no later one pass, or it could wait for ever. */
  #nextInTurn(): Turn | undefined {
    let isShort = false;
    for (const queue of this.#ready.keys()) {
      if (!this.#isNext(queue)) continue;
      const bytes = this.#large.get(queue);
      if (bytes === undefined) return this.#begin(queue, { bytes: this.bytesOfSlot });
      if (!isShort && this.#hasRoomFor(queue)) {
        this.#room.take(gateOf(queue), bytes);
        return this.#begin(queue, { bytes });
      }
      isShort ||= this.#room.isShort(bytes);
    }
    return undefined;
  }

  #nextAlone(next: { readonly queue: QueueName; isTaken: boolean }): Turn | undefined {
    if (next.isTaken || this.#slots.free() < this.#count) return undefined;
    if (this.#isClosed(gateOf(next.queue))) {
      this.#alone = undefined;
      return this.#nextInTurn();
    }
    next.isTaken = true;
    return this.#begin(next.queue, { bytes: undefined, alone: true });
  }

  #begin(queue: QueueName, { bytes, alone = false }: { bytes: number | undefined; alone?: boolean }): Turn {
    const toldAt = this.#ready.get(queue);
    if (toldAt !== undefined) {
      this.#ready.delete(queue);
      this.#ready.set(queue, toldAt);
    }
    this.#fetching.set(queue, (this.#fetching.get(queue) ?? 0) + 1);
    this.#slots.take(gateOf(queue));
    return { queue, bytes, alone };
  }
}

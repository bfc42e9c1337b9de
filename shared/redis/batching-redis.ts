import { type Command, Redis } from "ioredis";
import { BATCH_MAX } from "./batch-max.ts";

type WriteableStream = Parameters<Redis["sendCommand"]>[1];

/**
 * A connection whose commands of one turn of the event loop leave in few writes: each write is a system call, which costs
 * more than most commands. Order, replies and failures are those of the commands sent singly, unlike auto-pipelining,
 * which holds commands back until the batch before them is answered.
 */
export class BatchingRedis extends Redis {
  #held = 0;
  #release: (() => void) | undefined;

  override sendCommand(command: Command, stream?: WriteableStream): unknown {
    this.#release ??= this.#hold();
    const reply = super.sendCommand(command, stream);
    this.#held += 1;
    if (this.#held === BATCH_MAX) this.#release?.();
    return reply;
  }

  /** Holds back what is written to the socket of now until the turn ends or the batch is full. */
  #hold(): (() => void) | undefined {
    const { stream: socket } = this;
    if (!socket?.writable) return undefined;
    const release = (): void => {
      if (this.#release !== release) return;
      this.#release = undefined;
      socket.uncork();
    };
    this.#held = 0;
    socket.cork();
    setImmediate(release);
    return release;
  }
}

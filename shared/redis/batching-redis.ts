import { type Command, Redis } from "ioredis";

type WriteableStream = Parameters<Redis["sendCommand"]>[1];

/**
 * A connection whose commands of one turn of the event loop leave in one write: each write is a system call, which costs
 * more than most commands. Order, replies and failures are those of the commands sent singly, unlike auto-pipelining,
 * which holds commands back until the batch before them is answered.
 */
export class BatchingRedis extends Redis {
  #corked = false;

  override sendCommand(command: Command, stream?: WriteableStream): unknown {
    const { stream: socket } = this;
    if (!this.#corked && socket?.writable) {
      this.#corked = true;
      socket.cork();
      setImmediate(() => {
        this.#corked = false;
        socket.uncork();
      });
    }
    return super.sendCommand(command, stream);
  }
}

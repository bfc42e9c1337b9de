/** What a Buffer costs beside its bytes, as measured: a chunk of one byte takes 500. */
const BUFFER_COST_BYTES = 512;
const FIRST_BLOCK_BYTES = 1024;
const BLOCK_BYTES_MAX = 64 * 1024;
const SPARE_BLOCKS_MAX = 1024;

const SPARE_KEPT_MS = 5000;

/**
 * Blocks of the largest size that no body uses. Left to the collector, bodies that are cut would take twice the budget. They are
 * let go once no body has given one back for a while.
 */
const spare: Buffer[] = [];
let lettingGo: NodeJS.Timeout | undefined;

function keepSpare(block: Buffer): void {
  if (spare.length >= SPARE_BLOCKS_MAX) return;
  spare.push(block);
  lettingGo ??= setTimeout(() => {
    lettingGo = undefined;
    spare.length = 0;
  }, SPARE_KEPT_MS).unref();
  lettingGo.refresh();
}

/** What the blocks take that no body uses. */
export const spareBytes = (): number => spare.length * BLOCK_BYTES_MAX;

const NOTHING = Buffer.alloc(0);

/**
 * The pieces of a body as they arrive. A sender chooses the size of its chunks, down to a byte: so all but the first are
 * copied together into blocks that grow with the body, and memory follows the bytes. A body in one chunk is not copied.
 */
export class BodyPieces {
  #first: Buffer | undefined;
  #blocks: Buffer[] = [];
  #bytes = 0;
  /** How much of the last block is filled. */
  #filled = 0;

  /** Returns how much memory this chunk has taken. */
  add(chunk: Buffer): number {
    this.#bytes += chunk.length;
    if (this.#first === undefined) {
      this.#first = chunk;
      return chunk.length + BUFFER_COST_BYTES;
    }
    let taken = 0;
    let copied = 0;
    for (;;) {
      const last = this.#blocks.at(-1);
      if (last !== undefined) {
        const more = chunk.copy(last, this.#filled, copied);
        this.#filled += more;
        copied += more;
      }
      if (copied === chunk.length) return taken;
      taken += this.#addBlock(chunk.length - copied);
    }
  }

  /** The whole body, and no byte more. The pieces are given up. */
  whole(): Buffer {
    const whole = this.#blocks.length === 0 ? (this.#first ?? NOTHING) : this.#joined();
    this.giveUp();
    return whole;
  }

  /** In memory of its own: a slice of Node's buffer pool would keep 8 KiB for as long as the body lives, and 64 KiB since Node 24. */
  #joined(): Buffer {
    const whole = Buffer.allocUnsafeSlow(this.#bytes);
    let at = this.#first?.copy(whole) ?? 0;
    for (const block of this.#blocks) at += block.copy(whole, at);
    return whole;
  }

  giveUp(): void {
    for (const block of this.#blocks) {
      if (block.length === BLOCK_BYTES_MAX) keepSpare(block);
    }
    this.#first = undefined;
    this.#blocks = [];
  }

  /** Half as large as all that is there, so that little of it stays empty. */
  #addBlock(wanted: number): number {
    const roomy = Math.max(FIRST_BLOCK_BYTES, wanted, Math.ceil(this.#bytes / 2));
    const bytes = Math.min(roomy, BLOCK_BYTES_MAX);
    const block = bytes === BLOCK_BYTES_MAX ? spare.pop() : undefined;
    this.#blocks.push(block ?? Buffer.allocUnsafeSlow(bytes));
    this.#filled = 0;
    return bytes + BUFFER_COST_BYTES;
  }
}

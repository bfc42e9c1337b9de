/** Memory that a Buffer uses in addition to its content. A chunk of one byte was measured to use about 500 bytes. */
const BUFFER_COST_BYTES = 512;
const FIRST_BLOCK_BYTES = 1024;
const BLOCK_BYTES_MAX = 64 * 1024;
const SPARE_BLOCKS_MAX = 1024;

const SPARE_KEPT_MS = 5000;

/**
 * Unused blocks of the largest size, kept for reuse. The blocks of a refused body stay in memory until the garbage
 * collector frees them. Without reuse, memory would thus reach twice the budget (body-budget.ts). All unused blocks are
 * dropped once no body has returned a block for SPARE_KEPT_MS.
 */
const spare: Buffer[] = [];
let dropTimer: NodeJS.Timeout | undefined;

function keepSpare(block: Buffer): void {
  if (spare.length >= SPARE_BLOCKS_MAX) return;
  spare.push(block);
  dropTimer ??= setTimeout(() => {
    dropTimer = undefined;
    spare.length = 0;
  }, SPARE_KEPT_MS).unref();
  dropTimer.refresh();
}

/** Returns the bytes of the unused blocks. */
export const spareBytes = (): number => spare.length * BLOCK_BYTES_MAX;

const NOTHING = Buffer.alloc(0);

/**
 * Collects the chunks of a body as they arrive. A sender may send chunks of one byte, each of which would use much
 * memory as a Buffer. So all chunks but the first are copied into blocks that grow with the body. A body in one chunk
 * is not copied.
 */
export class BodyPieces {
  #first: Buffer | undefined;
  #blocks: Buffer[] = [];
  #bytes = 0;
  /** Filled bytes of the last block. */
  #filled = 0;

  /** Adds a chunk. Returns how much more memory the body uses now. */
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

  /** Returns the whole body in a buffer of exactly its size, and drops the pieces. */
  whole(): Buffer {
    const whole = this.#blocks.length === 0 ? (this.#first ?? NOTHING) : this.#joined();
    this.discard();
    return whole;
  }

  /**
   * Joins the pieces in separate memory. A slice of Node's buffer pool would keep the whole pool for as long as the
   * body lives: 8 KiB, or 64 KiB since Node 24.
   */
  #joined(): Buffer {
    const whole = Buffer.allocUnsafeSlow(this.#bytes);
    let at = this.#first?.copy(whole) ?? 0;
    for (const block of this.#blocks) at += block.copy(whole, at);
    return whole;
  }

  discard(): void {
    for (const block of this.#blocks) {
      if (block.length === BLOCK_BYTES_MAX) keepSpare(block);
    }
    this.#first = undefined;
    this.#blocks = [];
  }

  /** Adds a block of about half the body's size so far, so that only a small part of the memory stays empty. */
  #addBlock(wanted: number): number {
    const roomy = Math.max(FIRST_BLOCK_BYTES, wanted, Math.ceil(this.#bytes / 2));
    const bytes = Math.min(roomy, BLOCK_BYTES_MAX);
    const block = bytes === BLOCK_BYTES_MAX ? spare.pop() : undefined;
    this.#blocks.push(block ?? Buffer.allocUnsafeSlow(bytes));
    this.#filled = 0;
    return bytes + BUFFER_COST_BYTES;
  }
}

import { open } from "node:fs/promises";
import { join } from "node:path";
import { quantile } from "./statistics.ts";

const WRITES = 300;
const BYTES = 1024;

export type DiskFigures = { p50Ms: number; p99Ms: number };

/**
 * Measures how long the disk of this directory takes for a small write with fdatasync. With strict durability, Redis makes
 * such a write to its append-only file before it replies.
 */
export async function measureFsync(dir: string): Promise<DiskFigures> {
  const file = await open(join(dir, "fsync"), "a");
  const took: number[] = [];
  try {
    for (let i = 0; i < WRITES; i++) {
      const began = performance.now();
      await file.write(Buffer.alloc(BYTES));
      await file.datasync();
      took.push(performance.now() - began);
    }
  } finally {
    await file.close();
  }
  return { p50Ms: quantile(took, 0.5), p99Ms: quantile(took, 0.99) };
}

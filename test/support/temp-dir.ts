import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const made: string[] = [];
process.once("exit", () => {
  for (const dir of made) rmSync(dir, { recursive: true, force: true });
});

/** Creates a folder that is deleted when this process ends. */
export function tempDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "postern-test-"));
  made.push(dir);
  return dir;
}

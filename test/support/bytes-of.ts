import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** Returns the total size of all files in a folder. Folders named `without` are left out. */
export function bytesOf(folder: string, { without }: { without?: string | undefined } = {}): number {
  return readdirSync(folder, { withFileTypes: true }).reduce((sum, entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === without ? sum : sum + bytesOf(path, { without });
    return entry.isFile() ? sum + statSync(path).size : sum;
  }, 0);
}

import type { FilterOptions } from "./filter-options.ts";

/** What replay and discard have in common. */
export type BulkOptions = FilterOptions & {
  configDir: string;
  all?: boolean;
  dryRun?: boolean;
  concurrency: number;
  json?: boolean;
};

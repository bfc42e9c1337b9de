import { statSync } from "node:fs";
import { join } from "node:path";
import { openConfigDir } from "./config-dir.ts";
import { isTable } from "./fields.ts";

const POSTERN = "postern.toml";
const JOB_PRICING = "job_pricing.toml";

/**
 * Returns the names of jobs in `[jobs]` of postern.toml and in job_pricing.toml, by `<service id>/<job index>`. A
 * name in job_pricing.toml has priority, because buyers see it. A file that cannot be read names no jobs, and nothing
 * is validated. A changed file is read again.
 */
export function createJobNames(dir: string): () => Record<string, string> {
  let known: { versions: string; names: Record<string, string> } | undefined;
  return () => {
    const versions = [POSTERN, JOB_PRICING].map((name) => versionOf(join(dir, name))).join(" ");
    if (known?.versions !== versions) known = { versions, names: readNames(dir) };
    return known.names;
  };
}

function versionOf(path: string): string {
  const { mtimeMs, size, ino } = statSync(path, { throwIfNoEntry: false }) ?? {};
  return `${mtimeMs}/${size}/${ino}`;
}

function readNames(dir: string): Record<string, string> {
  const files = openConfigDir(dir);
  const entriesOf = (table: unknown) => Object.entries(isTable(table) ? table : {});
  const read = (name: string) => (files.has(name) ? files.table(name) : undefined);
  const postern = read(POSTERN);
  const priced = entriesOf(read(JOB_PRICING)).flatMap(([service, jobs]) =>
    entriesOf(jobs).map(([job, of]) => [`${service}/${job}`, of] as const),
  );
  const jobs = [...entriesOf(isTable(postern) ? postern["jobs"] : undefined), ...priced];
  const named = jobs.flatMap(([job, of]) =>
    isTable(of) && typeof of["name"] === "string" ? [[job, of["name"]] as const] : [],
  );
  return Object.fromEntries(named);
}

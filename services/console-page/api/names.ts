import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { ConfiguredNames } from "../../../shared/console/configured-names.ts";
import { useAnswer } from "./use-answer.ts";

type Names = Pick<ConfiguredNames, "public_networks" | "jobs">;

const NONE: Names = { public_networks: [], jobs: {} };
const Names = createContext(NONE);
export const NamesProvider = Names.Provider;

/** Fetches the names in the console's configuration once, such as those of jobs. Returns empty lists until the answer comes. */
export function useReadNames(): Names {
  return useAnswer("api/v1/configured-names", {}).data ?? NONE;
}

/**
 * Whether all configured nodes of a network (CAIP-2) are on the public internet. Otherwise the network may be a local
 * chain that uses the id of a public one.
 */
export const useIsPublic = (network: string): boolean => useContext(Names).public_networks.includes(network);

/** Returns the keys of the jobs that have a name in the configuration. */
export const useNamedJobs = (): string[] => Object.keys(useContext(Names).jobs);

/** Returns a function that writes a job with its name, as `report (7/7)`. */
export function useJobTitle(): (job: string) => string {
  const { jobs } = useContext(Names);
  return (job) => (jobs[job] === undefined ? job : `${jobs[job]} (${job})`);
}

/** Node's arguments before a file of the sources that a process is to run. */
export const FROM_SOURCE = ["--import", new URL("../../services/dev/from-source.mjs", import.meta.url).href];

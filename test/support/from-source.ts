/** Arguments of Node that let it run a source file, which follows them. */
export const FROM_SOURCE = ["--import", new URL("../../services/dev/from-source.mjs", import.meta.url).href];

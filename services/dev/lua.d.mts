import type { Plugin } from "rolldown";

export const luaPlugin: Plugin;

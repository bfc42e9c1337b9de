declare module "*.lua" {
  const source: string;
  export default source;
}

declare module "*/lua.mjs" {
  import type { Plugin } from "rolldown";
  export const luaPlugin: Plugin;
}

/** services/dev/lua.mjs makes modules of Lua files. */
declare module "*.lua" {
  const source: string;
  export default source;
}

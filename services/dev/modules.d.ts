declare module "*.lua" {
  const source: string;
  export default source;
}

declare module "cluster-key-slot" {
  /** Returns the slot of a key in a Redis Cluster. */
  export default function slotOf(key: string): number;
}

declare module "*.proto" {
  import type { INamespace } from "protobufjs";

  const descriptor: INamespace;
  export default descriptor;
}

declare module "*/loader.mjs" {
  import type { Plugin } from "rolldown";
  export const loaderPlugin: Plugin;
}

declare module "*/bullmq-lua.mjs" {
  export const CHECKSUMS: Readonly<Record<string, string>>;
  export function readScript(folder: string, name: string): string;
  export function checksumOf(lua: string): string;
  export function includedLua(path: string): string;
  export function refuseChanged(name: string, lua: string): void;
  export function split(name: string, lua: string): { functions: string; body: string };
}

declare module "*/build.mjs" {
  export function entrySources(root: string): string[];
  export function buildIfChanged(root: string, run: (step: readonly string[]) => void): void;
}

declare module "*/other-node.mjs" {
  export const OTHER_NODES: Readonly<Record<string, string>>;
}

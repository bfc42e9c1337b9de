// Lets Node run the TypeScript sources without a build: `node --import <this file> FILE`.
import "tsx";
import * as modules from "node:module";
import { load } from "./loader.mjs";

// Registers the hook that loads .lua and .proto files. Node 20 has no `registerHooks`, and Node 26 warns about `register`.
if (modules.registerHooks === undefined) modules.register("./loader.mjs", import.meta.url);
else modules.registerHooks({ load });

// Lets a process run the sources, without a build: `node --import <this file> FILE`.
import "tsx";
import { register } from "node:module";

register("./lua.mjs", import.meta.url);

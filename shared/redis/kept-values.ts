import keptValuesLua from "./kept-values.lua";

export const LET_GO = keptValuesLua;
export const KEEP = keptValuesLua;
export const DROP = keptValuesLua;

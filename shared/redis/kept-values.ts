import keptValuesLua from "./kept-values.lua";

export const KEPT_VALUES = keptValuesLua;

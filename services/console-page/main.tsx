import { render } from "preact";
import { App } from "./app.tsx";
import { applyTheme, storedTheme } from "./ui/theme.tsx";

applyTheme(storedTheme());
const place = document.getElementById("page");
if (place !== null) render(<App />, place);

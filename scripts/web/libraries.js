export {quadtree} from "d3-quadtree";
export {select} from "d3-selection";
export {zoom, zoomIdentity} from "d3-zoom";
export {default as uPlot} from "uplot";

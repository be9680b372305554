# innet_add_library(<target> FOLDER <folder> LINK <libraries>...)
#
# One static library from every .cpp below <folder>. Headers are included from the repository root:
# #include "transport/version.hpp". A library without sources yet is an interface library.
function(innet_add_library target)
    cmake_parse_arguments(PARSE_ARGV 1 library "" "FOLDER" "LINK")
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${library_FOLDER}/*.cpp")
    if(sources)
        add_library(${target} STATIC ${sources})
        target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}")
        target_link_libraries(${target} PUBLIC ${library_LINK} PRIVATE innet_warnings)
        innet_precompile(
            ${target} <algorithm> <array> <cstdint> <functional> <memory> <optional> <span> <string>
            <unordered_map> <utility> <vector>)
    else()
        add_library(${target} INTERFACE)
        target_link_libraries(${target} INTERFACE ${library_LINK})
    endif()
endfunction()

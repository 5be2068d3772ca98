# orrery_room(NAME SOURCES file… [HEADERS file…] [PUBLIC target…] [PRIVATE target…])
#
# A room is a library. PUBLIC and PRIVATE name the rooms and libraries that it may use: PUBLIC those that its
# headers include, PRIVATE those that its sources alone include. HEADERS are its headers where a folder holds
# several rooms; without them, they are all headers of its folder. A room without sources has headers alone.
#
# cmake/check_arrows.py compares what the files include with what is declared here, from the list of rooms in
# rooms.json of the build folder.
function(orrery_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
    target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
    target_link_libraries(${name} INTERFACE ${ARG_PUBLIC})
  endif()
  string(JSON room SET "{}" name "\"${name}\"")
  string(JSON room SET "${room}" folder "\"${CMAKE_CURRENT_SOURCE_DIR}\"")
  foreach(list SOURCES HEADERS PUBLIC PRIVATE)
    string(TOLOWER ${list} key)
    list(TRANSFORM ARG_${list} REPLACE "^.+$" "\"\\0\"")
    list(JOIN ARG_${list} "," items)
    string(JSON room SET "${room}" ${key} "[${items}]")
  endforeach()
  set_property(GLOBAL APPEND PROPERTY orrery_rooms "${room}")
endfunction()

# Writes rooms.json, once all rooms are declared.
function(orrery_write_rooms)
  get_property(rooms GLOBAL PROPERTY orrery_rooms)
  list(JOIN rooms ",\n" rooms)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/rooms.json CONTENT "[\n${rooms}\n]\n" @ONLY)
endfunction()
